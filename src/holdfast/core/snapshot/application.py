"""Applies the changes of an isolated copy to the worktree it was copied from: all of them or none.

Invariants
- What is applied is what was planned: paths that changed in between make it fail before any file changes.
- Applications to one worktree run one at a time, by whatever process: each sees what the one before has written.
- After a failure in the middle every touched file is restored from the tree that was captured before."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.file_lock import file_lock
from holdfast.core.process.git import GitFailed
from holdfast.core.run_to_completion import run_to_completion
from holdfast.core.snapshot.copy_changes import diff_text
from holdfast.core.snapshot.errors import CopyFailed, SnapshotError
from holdfast.core.snapshot.tree_merge import merge_changes, merged_tree
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast.core.snapshot.copy_changes import DiffText, RunGit
    from holdfast.core.snapshot.copy_record import CopyRecord
    from holdfast.core.snapshot.isolated_copies import IsolatedCopies
    from holdfast.core.snapshot.snapshot import Snapshots
    from holdfast.core.snapshot.tree_merge import Step

APPLY_SECONDS = 60.0
STALE = "files changed while approval was pending; nothing was applied. Call it again for the files as they are now"
ELSEWHERE = "its copy was made of {source}, and you work in {here} now. Its changes are in {directory}"
BUSY = f"other changes have been applied to these files for more than {APPLY_SECONDS:g} s. Call it again later"
STILL_CHANGED = "{error}; restoring the files failed too: {problem}"


log = logging.getLogger(__name__)


class Plan(Frozen):
    record: CopyRecord
    result: str
    """The tree whose changes are applied."""
    left_out: tuple[str, ...]
    """Changed files and nested repositories that are not part of it."""
    steps: tuple[Step, ...]
    conflicts: tuple[tuple[str, str], ...]
    before: str
    """The tree of the worktree for which it was planned."""
    after: str
    """The tree that it makes; the same as `before` with a conflict."""


async def _nobody() -> bool:
    return False


class Applications:
    """The applications to one worktree."""

    def __init__(self, copies: IsolatedCopies, snapshots: Snapshots, worktree: Path) -> None:
        self._copies = copies
        self._snapshots = snapshots
        self._worktree = worktree

    async def plan(self, record: CopyRecord) -> Plan:
        """What applying the changes would do. Raises CopyFailed."""
        if Path(record.trees) != self._snapshots.store:
            directory = self._copies.directory(record)
            raise CopyFailed(ELSEWHERE.format(source=record.source, here=self._worktree, directory=directory))
        left_out: list[str] = []
        if record.state == "ready":
            result, left_out = await self._copies.capture(record)
        else:
            result = record.result or record.base
        return await self._planned(record, result, tuple(left_out))

    async def diff(self, plan: Plan) -> DiffText:
        try:
            return await diff_text(self._copies.git(plan.record), plan.before, plan.after)
        except GitFailed as error:
            raise CopyFailed(str(error)) from error

    async def apply(self, plan: Plan) -> None:
        """Raises CopyFailed."""
        async with self._one_at_a_time():
            current = await self._planned(plan.record, plan.result, plan.left_out)
            if current.steps != plan.steps or current.conflicts:
                raise CopyFailed(STALE)
            await run_to_completion(self._apply(current))

    async def finish(self, plan: Plan, works: Callable[[], Awaitable[bool]] = _nobody) -> bool:
        """Everything is applied: record that, and remove the copy unless somebody works in it or it has more. Returns
        whether it has changes that the plan did not have. Raises CopyFailed."""
        record = self._copies.folder.read(plan.record.session_id)
        if record is None:
            return False  # the Session was deleted
        further = record.offered and record.result not in (plan.record.result, plan.result)
        record = record.replace(base=plan.result, result=record.result if further else plan.result)
        self._copies.record(record)
        touched = self._copies.folder.touched(record.session_id)
        if record.state != "ready":
            return further
        try:
            tree, _ = await self._copies.capture(record)
            further = tree != plan.result
            if not (further or plan.left_out or await works()):
                await self._copies.remove(record, touched=touched)
        except CopyFailed as error:  # the changes are applied all the same, and an unchanged copy is swept
            log.warning("the isolated copy of %s stays: %s", record.session_id, error)
        return further

    @asynccontextmanager
    async def _one_at_a_time(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                lock = file_lock(self._copies.folder.lock(f"apply {self._worktree}"), patience=APPLY_SECONDS)
                await stack.enter_async_context(lock)
            except TimeoutError:
                raise CopyFailed(BUSY) from None
            except OSError as error:
                raise CopyFailed(str(error)) from error
            yield

    async def _apply(self, plan: Plan) -> None:
        paths = [step.path for step in plan.steps]
        try:
            await self._snapshots.restore(plan.after, paths)
        except (SnapshotError, OSError) as error:
            try:
                await self._snapshots.restore(plan.before, paths)
            except (SnapshotError, OSError) as problem:
                raise CopyFailed(STILL_CHANGED.format(error=error, problem=problem)) from error
            raise CopyFailed(str(error)) from error

    async def _planned(self, record: CopyRecord, result: str, left_out: tuple[str, ...]) -> Plan:
        git = self._copies.git(record)
        try:
            here = await self._snapshots.capture()
            merge = await merge_changes(git, self._worktree, record.base, result, here)
            after = here if merge.conflicts else await self._merged(git, here, merge.steps)
        except (GitFailed, SnapshotError, OSError) as error:
            raise CopyFailed(str(error)) from error
        return Plan(record, result, left_out, merge.steps, merge.conflicts, here, after)

    async def _merged(self, git: RunGit, here: str, steps: tuple[Step, ...]) -> str:
        import tempfile

        if not steps:
            return here
        with tempfile.TemporaryDirectory(prefix="holdfast-merge-") as folder:
            return await merged_tree(partial(git, index=Path(folder) / "index"), here, steps)
