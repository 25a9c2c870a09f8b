"""Isolated copies: worktrees of a repository with the files of another worktree as they are, uncommitted ones included.
A child Session works in one, and its changes are offered to the parent.

Invariants
- A copy is made at a place that follows from its Session: whoever repeats it finds the same copy, or makes it anew.
- One copy of a repository is made at a time, by whatever process. Making one is bounded in time.
- Files are written and compared in a snapshot store, so no filter and no hook runs, and files are equal byte for byte.
- In the repository itself only the list of worktrees changes. The source's files and index are only read.
- A copy whose changes are neither applied nor recorded is not removed, unless its Session is deleted.
- A copy that somebody is about to use is not removed: whoever uses it touches its record, and whoever removes it has
  looked at that before. Both hold the lock of the repository."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.file_lock import file_lock
from holdfast.core.process.git import Git, GitFailed
from holdfast.core.project.project import Project
from holdfast.core.project.repository import head_commit, repository_at
from holdfast.core.run_to_completion import run_to_completion
from holdfast.core.snapshot.copy_changes import listed
from holdfast.core.snapshot.copy_files import (
    is_directory,
    left_out_of_checkout,
    make_folders,
    remove_directory,
    remove_incomplete_entry,
    submodules,
    write_note,
)
from holdfast.core.snapshot.copy_record import CopyFolder, CopyRecord
from holdfast.core.snapshot.errors import CopyFailed, SnapshotError
from holdfast.core.snapshot.limits import SnapshotLimits
from holdfast.core.snapshot.snapshot import Snapshots, kept_index_of_copy, nul_terminated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from holdfast.core.snapshot.copy_changes import RunGit

LIST_TAGS = ("ls-files", "-t", "-z")
SKIP = ("update-index", "--skip-worktree", "-z", "--stdin")
MAKE_SECONDS = 300.0
REMOVE_SECONDS = 5.0
NO_REPOSITORY = "the project is not a git repository"
NO_COMMIT = "the repository has no commit yet"
NO_SNAPSHOTS = "the project is too large for snapshots, of which copies are made"
TOO_LONG = f"it took longer than {MAKE_SECONDS:g} s"
GONE = "the copy at {} is gone"
IN_USE = "it is used again"
NO_FILES = (
    "The isolated copy of the project at {directory} is not there any more: {reason}. You can read and change no files "
    "and run no commands. The agent that gave you the task can have you go on in a new copy."
)
WAS_REMOVED = "its changes were applied to {source}, or there were none"
WAS_PUT_AWAY = "it was not used for long, and its changes are recorded"
WAS_DELETED = "somebody deleted it"
REMOVED = "The isolated copy of {session} was here. Its changes were applied to {source}, or there were none.\n"
PUT_AWAY = "The isolated copy of {session} was here. It was not used for long. Its changes are recorded.\n"

log = logging.getLogger(__name__)


class IsolatedCopies:
    """One per process."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = CopyFolder(folder)
        self._environment = environment
        self._git = Git(environment, seconds=MAKE_SECONDS)

    def directory(self, record: CopyRecord) -> Path:
        return self.folder.directory(record.session_id)

    def is_there(self, session_id: str) -> bool:
        """Whether the Session has a complete copy now."""
        known = self.folder.read(session_id)
        return known is not None and known.state == "ready" and is_directory(self.directory(known))

    async def check(self, project: Project, snapshots: Snapshots) -> str:
        """The commit that a copy of this project would be at. Raises CopyFailed if none can be made."""
        if project.store is None:
            raise CopyFailed(NO_REPOSITORY)
        try:
            head = await head_commit(self._git, repository_at(project.directory))
        except GitFailed as error:
            raise CopyFailed(str(error)) from error
        if head is None:
            raise CopyFailed(NO_COMMIT)
        if not snapshots.possible:
            raise CopyFailed(NO_SNAPSHOTS)
        return head

    async def make(self, session_id: str, project: Project, snapshots: Snapshots) -> CopyRecord:
        """The copy for this Session: the one that is there, or a new one of the project's files as they are. Changes
        that were recorded and not applied are part of a new one too. Raises CopyFailed."""
        try:
            self.folder.create()
            lock = file_lock(self.folder.lock(str(project.store)), patience=MAKE_SECONDS)
            async with asyncio.timeout(MAKE_SECONDS), lock:
                known = self.folder.read(session_id)
                self.folder.touch(session_id)
                if known is not None and self.is_there(session_id):
                    return known
                return await self._make(session_id, project, snapshots, known)
        except TimeoutError:
            raise CopyFailed(TOO_LONG) from None
        except (GitFailed, SnapshotError, OSError, UnicodeEncodeError) as error:
            raise CopyFailed(str(error)) from error

    async def capture(self, record: CopyRecord) -> tuple[str, list[str]]:
        """The tree of the copy's files, and what is not in it: changed files that are too large, and repositories that
        were made in the copy. Raises CopyFailed."""
        directory = self.directory(record)
        if record.state != "ready" or not is_directory(directory):
            raise CopyFailed(GONE.format(directory))
        limits = SnapshotLimits(file_bytes=record.file_bytes, files=record.files)
        project = Project("", directory, Path(record.repository))
        snapshots = Snapshots(project, Path(), self._environment, lambda: limits, shared=Path(record.trees))
        try:
            tree = await snapshots.capture()
            left_out = await snapshots.left_out(tree)
            nested = snapshots.nested
        except (SnapshotError, OSError) as error:
            raise CopyFailed(str(error)) from error
        finally:
            with suppress(OSError):
                snapshots.close()
        if not is_directory(directory):  # it was deleted meanwhile: files that are gone were not deleted one by one
            raise CopyFailed(GONE.format(directory))
        return tree, [*(path for path in left_out if (directory / path).exists()), *nested]

    def git(self, record: CopyRecord) -> RunGit:
        """Runs git with the store of the copy's trees."""
        return partial(self._git.run, git_dir=Path(record.trees))

    def record(self, record: CopyRecord) -> None:
        """Raises CopyFailed."""
        try:
            self.folder.write(record)
        except OSError as error:
            raise CopyFailed(str(error)) from error

    def why_gone(self, session_id: str) -> str | None:
        """What the Session is told if its copy is not there any more; None if it is, or if it has none."""
        record = self.folder.read(session_id)
        if record is None or record.state == "making" or self.is_there(session_id):
            return None
        reason = WAS_DELETED if record.state == "ready" else WAS_PUT_AWAY if record.offered else WAS_REMOVED
        return NO_FILES.format(directory=self.directory(record), reason=reason.format(source=record.source))

    async def remove(self, record: CopyRecord, *, touched: int | None = None) -> None:
        """Remove the files of a copy whose changes are applied or recorded; with `touched`, only if its record was not
        touched since then. Raises CopyFailed."""
        async with self.removing(record):
            if touched is not None and self.folder.touched(record.session_id) != touched:
                raise CopyFailed(IN_USE)
            await run_to_completion(self._remove(record))

    async def discard(self, session_id: str) -> None:
        """The Session was deleted: remove its copy with all changes. What cannot be removed now is removed later."""
        record = self.folder.read(session_id)
        if record is None:
            return
        try:
            async with self.removing(record):
                await run_to_completion(self.forget(record))
        except CopyFailed as error:
            log.warning("the isolated copy of %s was not removed: %s", session_id, error)

    async def forget(self, record: CopyRecord) -> None:
        """Call it under the lock of the repository."""
        await self._clear(record)
        self.folder.forget(record.session_id)

    @asynccontextmanager
    async def removing(self, record: CopyRecord) -> AsyncIterator[None]:
        """The lock of the repository, for short work. Raises CopyFailed if somebody holds it for long."""
        async with AsyncExitStack() as stack:
            try:
                lock = file_lock(self.folder.lock(record.repository), patience=REMOVE_SECONDS)
                await stack.enter_async_context(lock)
            except TimeoutError:
                raise CopyFailed("another copy of the repository is being made") from None
            except OSError as error:
                raise CopyFailed(str(error)) from error
            yield

    async def _make(
        self, session_id: str, project: Project, snapshots: Snapshots, known: CopyRecord | None
    ) -> CopyRecord:
        head = await self.check(project, snapshots)
        record = CopyRecord(
            session_id=session_id,
            source=str(project.directory),
            repository=str(project.store),
            trees=str(snapshots.store),
            file_bytes=snapshots.current_limits.file_bytes,
            files=snapshots.current_limits.files,
        )
        try:
            if known is not None and known.offered and known.trees == record.trees:
                record = record.replace(base=known.base, result=known.result)
            else:
                record = record.replace(base=await snapshots.capture())
            self.folder.write(record)
            await self._clear(record)
            await self._write_files(record, head)
            left_out = await snapshots.left_out(record.base)
            nested = await self._write_index(record, head)
            record = record.replace(state="ready", not_copied=_not_copied(left_out, nested))
            self.folder.write(record)
        except BaseException:
            await run_to_completion(self._undo(record, known))
            raise
        return record

    async def _undo(self, record: CopyRecord, known: CopyRecord | None) -> None:
        try:
            await self._clear(record)
            if known is None:
                self.folder.forget(record.session_id)
            else:
                self.folder.write(known)
        except (OSError, CopyFailed) as error:
            log.warning("an incomplete copy for %s was left: %s", record.session_id, error)

    async def _write_files(self, record: CopyRecord, head: str) -> None:
        target, store = self.directory(record), Path(record.trees)
        add = ("worktree", "add", "--quiet", "--detach", "--no-checkout", "--", str(target), head)
        await self._git.run_in_repository(*add, git_dir=Path(record.repository))
        tree = record.result if record.offered and record.result is not None else record.base
        index = kept_index_of_copy(store, target)
        await self._git.run("read-tree", "--reset", "-u", tree, git_dir=store, work_tree=target, index=index)

    async def _write_index(self, record: CopyRecord, head: str) -> list[str]:
        """Set the index of the worktree to its commit, as after a checkout. Returns the submodules, which are empty.
        Files that a sparse checkout leaves out are marked as in the source, so that they do not count as deleted."""
        copy = repository_at(self.directory(record))
        with copy.scratch() as folder:
            run = partial(self._git.run, git_dir=folder, work_tree=copy.root, index=copy.git_directory / "index")
            await run("read-tree", head)
            entries = await run("ls-files", "-s", "-z")
            nested = submodules(entries)
            source = repository_at(Path(record.source)).git_directory
            if (source / "info" / "sparse-checkout").is_file():
                with suppress(GitFailed):  # a split index cannot be read from here
                    tags = await self._git.run(*LIST_TAGS, git_dir=folder, work_tree=copy.root, index=source / "index")
                    await run(*SKIP, stdin=nul_terminated(left_out_of_checkout(tags, entries)))
        await asyncio.to_thread(make_folders, copy.root, nested)
        return nested

    async def _remove(self, record: CopyRecord) -> None:
        record = record.replace(state="removed")
        self.record(record)
        await self._clear(record)
        text = (PUT_AWAY if record.offered else REMOVED).format(session=record.session_id, source=record.source)
        await asyncio.to_thread(write_note, self.directory(record), text)

    async def _clear(self, record: CopyRecord) -> None:
        """Remove what there is of a copy. Raises CopyFailed."""
        target = self.directory(record)
        try:
            await asyncio.to_thread(remove_directory, target)
            kept_index_of_copy(Path(record.trees), target).unlink(missing_ok=True)
        except OSError as error:
            raise CopyFailed(str(error)) from error
        # Twice: a git that was killed in `worktree add` leaves the entry locked.
        remove = ("worktree", "remove", "--force", "--force", "--", str(target))
        with suppress(GitFailed):  # it is not registered, or the repository is gone
            await self._git.run_in_repository(*remove, git_dir=Path(record.repository))
        with suppress(OSError):
            await asyncio.to_thread(remove_incomplete_entry, Path(record.repository), record.session_id)


def _not_copied(left_out: set[str], nested: list[str]) -> str:
    parts = ["ignored files", "nested repositories"]
    if nested:
        parts.append(f"submodules ({listed(nested)})")
    if left_out:
        parts.append(f"files that are too large ({listed(left_out)})")
    return "; ".join(parts)
