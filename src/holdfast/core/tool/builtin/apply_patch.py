"""The `apply_patch` tool: changes several files with one patch. The whole patch is parsed, resolved and approved before
any content is read, and applied in memory before any file changes."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from holdfast.core.filesystem.descriptor import read_file
from holdfast.core.filesystem.diff import FileDiff, file_diff
from holdfast.core.filesystem.editor_files import NOT_BY_PATCH
from holdfast.core.filesystem.errors import FileError, FileTooLarge, NotText, TargetExists, TargetMissing
from holdfast.core.filesystem.location_files import LocationFiles
from holdfast.core.filesystem.location_path import Target
from holdfast.core.filesystem.mutation import MAX_FILE_BYTES, FileMutations
from holdfast.core.filesystem.text import decode
from holdfast.core.filesystem.transaction import Change, ChangesFailed
from holdfast.core.tool.builtin.authorize import Authorizer, allow_files, allow_outside, file_failures
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from holdfast.core.tool.builtin import hunk
    from holdfast.core.tool.builtin import patch as patches
else:
    hunk = deferred("holdfast.core.tool.builtin.hunk")
    patches = deferred("holdfast.core.tool.builtin.patch")

MAX_PATCH_BYTES = 1024 * 1024
MAX_OPERATIONS = 200
MAX_CHUNKS = 2000

DESCRIPTION = """\
Change several files with one patch:

*** Begin Patch
*** Add File: <path>
+<every line of the new file>
*** Update File: <path>
*** Move to: <new path, optional>
@@ <a line above the change, optional>
 <unchanged line>
-<removed line>
+<added line>
*** Delete File: <path>
*** End Patch

Give about three unchanged lines around a change. `*** End of File` behind a chunk ties it to the end of the file."""
REQUIRED = "patchText is required"
EMPTY = "patch rejected: empty patch"
INVALID = "apply_patch verification failed: {detail}"
NO_MOVES = "apply_patch moves are not supported yet"
UNABLE = "Unable to apply patch at {path}"
STOPPED = "Patch stopped at {path}; already applied: {applied}"
ROLLED_BACK = "{unable}; rolled back, nothing was applied"
PARTIAL = "{unable}; taking it back failed too, these are still changed: {remaining}"
APPLIED = "Applied patch sequentially:"


class PatchInput(msgspec.Struct, frozen=True, rename="camel"):
    patch_text: Annotated[str, msgspec.Meta(description="The whole patch, from *** Begin Patch to *** End Patch")]


class Applied(Record):
    type: Literal["add", "update", "delete", "move"]
    resource: str
    target: str
    from_: str | None = msgspec.field(default=None, name="from")


class PatchOutput(Record):
    applied: tuple[Applied, ...]
    files: tuple[FileDiff, ...]


def apply_patch_tool(files: LocationFiles, permissions: Authorizer) -> Tool[PatchInput, PatchOutput]:
    async def execute(given: PatchInput, context: ToolContext) -> PatchOutput:
        settings = files.settings()
        operations = _parsed(given.patch_text)
        if not settings.patch_moves and any(isinstance(one, patches.UpdateFile) and one.move_to for one in operations):
            raise ToolFailure(NO_MOVES)
        located = [_locate(files, operation) for operation in operations]
        targets = [target for one in located for target in one[1:] if target is not None]
        await allow_outside(permissions, context, targets)
        # The content of a file that moves can be read under its new name.
        if moved := [target for _, target, destination in located if destination is not None]:
            await allow_files(permissions, context, "read", moved)
        await allow_files(permissions, context, "edit", targets)
        for target in targets:
            with file_failures(UNABLE.format(path=target.resource)):
                unsaved = await files.unsaved.text(context.session_id, target)
            if unsaved is not None:
                raise ToolFailure(NOT_BY_PATCH.format(resource=target.resource))
        steps = await asyncio.to_thread(_plan, located)
        output = await asyncio.to_thread(_output, steps)
        await (_apply_atomically(files, steps) if settings.patch_atomic else _apply_in_order(files, steps))
        for target in targets:
            files.fingerprints.note(context.session_id, target.path)
        return output

    return Tool(
        description=DESCRIPTION,
        input=PatchInput,
        output=PatchOutput,
        execute=execute,
        content=_content,
        action="edit",
    )


def planned(files: LocationFiles, given: PatchInput) -> tuple[FileDiff, ...]:
    """What a call would change now. Nothing is written. Blocks."""
    return _output(_plan([_locate(files, operation) for operation in _parsed(given.patch_text)])).files


def _parsed(text: str) -> "list[patches.Operation]":
    if not text.strip():
        raise ToolFailure(REQUIRED)
    if len(text.encode(errors="surrogatepass")) > MAX_PATCH_BYTES:
        raise ToolFailure(INVALID.format(detail=f"the patch is larger than {MAX_PATCH_BYTES} bytes"))
    try:
        operations = patches.parse(text)
    except patches.PatchError as error:
        raise ToolFailure(INVALID.format(detail=error)) from None
    if not operations:
        raise ToolFailure(EMPTY)
    if len(operations) > MAX_OPERATIONS:
        raise ToolFailure(INVALID.format(detail=f"the patch has more than {MAX_OPERATIONS} operations"))
    if sum(len(one.chunks) for one in operations if isinstance(one, patches.UpdateFile)) > MAX_CHUNKS:
        raise ToolFailure(INVALID.format(detail=f"the patch has more than {MAX_CHUNKS} chunks"))
    return operations


_Located: TypeAlias = "tuple[patches.Operation, Target, Target | None]"
"""An operation, its target, and the destination of a move."""


def _locate(files: LocationFiles, operation: "patches.Operation") -> _Located:
    with file_failures(UNABLE.format(path=operation.path)):
        # Deleting a symbolic link removes the link, not its target.
        target = files.resolve(operation.path, "write", follow=not isinstance(operation, patches.DeleteFile))
    if not isinstance(operation, patches.UpdateFile) or operation.move_to is None:
        return operation, target, None
    with file_failures(UNABLE.format(path=operation.move_to)):
        return operation, target, files.resolve(operation.move_to, "write")


class _Step(Frozen):
    """One operation with the content before and after it; None means that the file does not exist."""

    kind: Literal["add", "update", "delete", "move"]
    path: str
    target: Target
    """For a move, the destination."""
    before: bytes | None
    after: bytes | None
    source: Target | None = None
    """Only for a move."""


def _plan(located: Sequence[_Located]) -> list[_Step]:
    """Apply the operations in memory, each to the content that the earlier ones leave."""
    state: dict[Path, bytes | None] = {}
    steps: list[_Step] = []
    for operation, target, destination in located:
        with file_failures(UNABLE.format(path=operation.path)):
            before = _content_of(target, state)
            match operation:
                case patches.AddFile(content=content):
                    if before is not None:
                        raise TargetExists(target.resource)
                    step = _Step("add", operation.path, target, None, _bounded(content.encode(), target))
                case patches.DeleteFile():
                    step = _Step("delete", operation.path, target, _existing(before, target), None)
                case patches.UpdateFile():
                    before = _existing(before, target)
                    after = _bounded(_updated(before, operation), target)
                    if destination is None:
                        step = _Step("update", operation.path, target, before, after)
                    else:
                        if destination.path == target.path or _content_of(destination, state) is not None:
                            raise FileError(f"{destination.resource} already exists")
                        step = _Step("move", operation.path, destination, before, after, source=target)
                        state[target.path] = None
        state[step.target.path] = step.after
        steps.append(step)
    return steps


def _content_of(target: Target, state: dict[Path, bytes | None]) -> bytes | None:
    if target.path in state:
        return state[target.path]
    if target.path.is_symlink():
        return b""
    try:
        return read_file(target, MAX_FILE_BYTES)
    except TargetMissing:
        return None


def _existing(before: bytes | None, target: Target) -> bytes:
    if before is None:
        raise TargetMissing(target.resource)
    return before


def _updated(before: bytes, operation: "patches.UpdateFile") -> bytes:
    text = decode(before)
    if text is None:
        raise NotText("it is not valid UTF-8")
    try:
        return text.encode(hunk.apply_chunks(text.content, operation.chunks, operation.path))
    except hunk.HunkError as error:
        raise FileError(str(error)) from None


def _bounded(data: bytes, target: Target) -> bytes:
    if len(data) > MAX_FILE_BYTES:
        raise FileTooLarge(target.resource, MAX_FILE_BYTES)
    return data


async def _apply_in_order(files: LocationFiles, steps: Sequence[_Step]) -> None:
    """Steps applied before a failure stay applied; the failure lists them."""
    for position, step in enumerate(steps):
        applied = ", ".join(done.target.resource for done in steps[:position])
        prefix = STOPPED if applied else UNABLE
        with file_failures(prefix.format(path=step.path, applied=applied)):
            await _commit(files.mutations, step)


async def _commit(mutations: FileMutations, step: _Step) -> None:
    if step.after is None:
        await mutations.remove(step.target)
    elif step.before is None:
        await mutations.create(step.target, step.after)
    elif step.source is None:
        await mutations.write_if_unchanged(step.target, step.before, step.after)
    else:
        await mutations.move(step.source, step.target, step.before, step.after)


async def _apply_atomically(files: LocationFiles, steps: Sequence[_Step]) -> None:
    try:
        await files.mutations.change_together(_changes_by_file(steps))
    except ChangesFailed as failed:
        unable = f"{UNABLE.format(path=failed.target.resource)}: {failed}"
        if failed.remaining:
            remaining = ", ".join(target.resource for target in failed.remaining)
            raise ToolFailure(PARTIAL.format(unable=unable, remaining=remaining)) from failed
        raise ToolFailure(ROLLED_BACK.format(unable=unable)) from failed


def _changes_by_file(steps: Sequence[_Step]) -> list[Change]:
    """Combine the steps into one change per file."""
    changes: dict[Path, Change] = {}

    def add(target: Target, before: bytes | None, after: bytes | None, like: Target | None = None) -> None:
        earlier = changes.get(target.path)
        changes[target.path] = Change(target, earlier.before if earlier else before, after, like)

    for step in steps:
        if step.source is not None:
            add(step.source, step.before, None)
        add(step.target, None if step.source else step.before, step.after, step.source)
    return [change for change in changes.values() if change.before is not None or change.after is not None]


def _output(steps: Sequence[_Step]) -> PatchOutput:
    return PatchOutput(
        applied=tuple(
            Applied(
                type=step.kind,
                resource=step.target.resource,
                target=str(step.target.path),
                from_=step.source.resource if step.source else None,
            )
            for step in steps
        ),
        files=tuple(file_diff(step.target.resource, step.before, step.after) for step in steps),
    )


def _content(given: PatchInput, value: dict[str, Any]) -> Sequence[TextContent]:
    return [TextContent(text="\n".join([APPLIED, *map(_line, value["applied"])]))]


def _line(applied: dict[str, Any]) -> str:
    if applied["type"] == "move":
        return f"R {applied['from']} -> {applied['resource']}"
    return f"{_LETTERS[applied['type']]} {applied['resource']}"


_LETTERS = {"add": "A", "update": "M", "delete": "D"}
