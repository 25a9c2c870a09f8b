"""The files that the tools of a Session changed: by the trees around its steps, or else by what calls say of their
changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import asdict, replace

from holdfast.core.filesystem.diff import FileDiff
from holdfast.core.snapshot.errors import SnapshotError
from holdfast.core.snapshot.snapshot import PATCH_LIMIT, PATCHED_FILES, PATCHES_LIMIT
from holdfast.schema.codec import decoder, encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.past import Changes
from holdfast.schema.session import RevertFile
from holdfast.schema.session_message import StepSnapshot  # noqa: TC001 - msgspec reads the annotations of rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.snapshot.snapshot import Snapshots

DIFFING_TOOLS = ("apply_patch", "edit", "write")
"""Tools whose results say which files they changed, and how."""
MOST_CALLS = 5_000
MOST_FILES = 5_000

UNCOMPARED = "The files were not captured around {count} of {all} steps, so that what these changed may be missing."
UNSTORED = "The stored files cannot be compared ({reason})."
BY_CALLS = "These are the changes that {tools} reported; those of commands and other tools are missing."
CUT = "Only the first {most} files are listed."


class ToolStep(Frozen):
    """An answer with tool calls."""

    seq: int
    snapshot: StepSnapshot | None
    tools: tuple[str, ...]


class ChangePlan(Frozen):
    """What to compare: two trees, and the paths that steps changed between them."""

    before: str
    after: str
    paths: tuple[str, ...]


async def changes_of(
    database: Database, session_id: str, snapshots: Snapshots, looks_only: Callable[[str], bool]
) -> Changes:
    """`looks_only` says whether a tool cannot change files."""
    steps = await database.fetch_large("inspect.steps", {"session_id": session_id}, into=ToolStep)
    changing = [step for step in steps if not all(map(looks_only, step.tools))]
    if not changing:
        return Changes(files=(), complete=True)
    missing = [step for step in changing if not _compared(step)]
    plan = plan_of(changing)
    reason = "there are none"
    if plan is not None:
        try:
            found = await snapshots.diff(plan.before, plan.after, plan.paths)
        except SnapshotError as error:
            reason = str(error)
        else:
            files = [RevertFile(**asdict(change)) for change in found]
            note = UNCOMPARED.format(count=len(missing), all=len(changing)) if missing else None
            return _bounded(files, note)
    return await _by_calls(database, session_id, reason)


def plan_of(steps: Iterable[ToolStep]) -> ChangePlan | None:
    """None if no step has a tree before it and one after it."""
    trees = [step.snapshot for step in steps if step.snapshot is not None and _compared(step)]
    if not trees:
        return None
    paths = dict.fromkeys(path for tree in trees for path in tree.files or ())
    return ChangePlan(trees[0].start or "", trees[-1].end or "", tuple(sorted(paths)))


def joined(diffs: Iterable[FileDiff]) -> list[RevertFile]:
    """One entry for each file, in the order of the first change: counts are added up and patches follow each other. A
    patch that grows too long is left out."""
    files: dict[str, RevertFile] = {}
    for diff in diffs:
        before = files.get(diff.file)
        patch = diff.patch or ""
        if before is None:
            files[diff.file] = RevertFile(
                path=diff.file, status=diff.status, additions=diff.additions, deletions=diff.deletions, patch=patch
            )
            continue
        whole = before.patch + patch
        files[diff.file] = replace(
            before,
            status="added" if before.status == "added" and diff.status == "modified" else diff.status,
            additions=before.additions + diff.additions,
            deletions=before.deletions + diff.deletions,
            patch=whole if len(whole) <= PATCH_LIMIT else "",
        )
    return list(files.values())


class _Diffs(Frozen):
    files: str

    def decoded(self) -> tuple[FileDiff, ...]:
        """Nothing if a tool of the same name reports something else there."""
        try:
            found: tuple[FileDiff, ...] = decoder(tuple[FileDiff, ...]).decode(self.files)
        except msgspec.DecodeError:
            return ()
        return found


async def _by_calls(database: Database, session_id: str, reason: str) -> Changes:
    key: dict[str, Value] = {
        "session_id": session_id,
        "tools": encode(DIFFING_TOOLS).decode(),
        "limit": MOST_CALLS,
    }
    rows = await database.fetch_large("inspect.diffs", key, into=_Diffs)
    files = joined(diff for row in rows for diff in row.decoded())
    note = f"{UNSTORED.format(reason=reason)} {BY_CALLS.format(tools=', '.join(DIFFING_TOOLS))}"
    return _bounded(files, note)


def _bounded(files: Sequence[RevertFile], note: str | None) -> Changes:
    """With the patches of the first files, up to the limits of a comparison."""
    kept: list[RevertFile] = []
    shown = 0
    for place, file in enumerate(files[:MOST_FILES]):
        fits = place < PATCHED_FILES and shown + len(file.patch) <= PATCHES_LIMIT + PATCH_LIMIT
        kept.append(file if fits else replace(file, patch=""))
        shown += len(kept[-1].patch)
    if len(files) > MOST_FILES:
        note = " ".join(filter(None, (note, CUT.format(most=MOST_FILES))))
    return Changes(files=tuple(kept), complete=note is None, note=note)


def _compared(step: ToolStep) -> bool:
    return step.snapshot is not None and step.snapshot.start is not None and step.snapshot.end is not None
