"""The `write` tool: creates a file or replaces its content."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from holdfast.core.filesystem.descriptor import read_file
from holdfast.core.filesystem.diff import FileDiff, file_diff
from holdfast.core.filesystem.editor_files import UNSAVED
from holdfast.core.filesystem.errors import FileTooLarge, TargetMissing
from holdfast.core.filesystem.location_files import LocationFiles
from holdfast.core.filesystem.location_path import Target
from holdfast.core.filesystem.mutation import MAX_FILE_BYTES, Mutation
from holdfast.core.filesystem.text import encode_like
from holdfast.core.tool.builtin.authorize import Authorizer, allow_files, allow_outside, file_failures
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

DESCRIPTION = "Create a file, or replace its whole content. Missing directories are created."
CREATED = "Created file successfully: {resource}"
WROTE = "Wrote file successfully: {resource}"
ENDINGS_CHANGED = "Note: the file had CRLF line endings and now has LF."
CHANGED_SINCE_READ = "File changed since it was read. Read it again before writing."


class WriteInput(msgspec.Struct, frozen=True):
    path: Annotated[str, msgspec.Meta(description="The file, relative to the working directory or absolute")]
    content: Annotated[str, msgspec.Meta(description="All of its new content")]


class WriteOutput(Record):
    operation: Literal["write"]
    target: str
    resource: str
    existed: bool
    files: tuple[FileDiff, ...]
    note: str | None = None


def write_tool(files: LocationFiles, permissions: Authorizer) -> Tool[WriteInput, WriteOutput]:
    async def execute(given: WriteInput, context: ToolContext) -> WriteOutput:
        unable = f"Unable to write {given.path}"
        if len(given.content.encode(errors="surrogatepass")) > MAX_FILE_BYTES:
            raise ToolFailure(f"{unable}: its content is larger than {MAX_FILE_BYTES} bytes")
        with file_failures(unable):
            target = files.resolve(given.path, "write")
        await allow_outside(permissions, context, [target])
        await allow_files(permissions, context, "edit", [target])
        settings = files.settings()
        if settings.stale_guard and files.fingerprints.is_stale(context.session_id, target.path):
            raise ToolFailure(CHANGED_SINCE_READ)
        keep_crlf = settings.line_endings == "as_before"
        with file_failures(unable):
            done = await _write_in_editor(files, context, target, given)
            if done is None:
                done = await files.mutations.write(target, lambda before: _encode(before, given, keep_crlf=keep_crlf))
        files.fingerprints.note(context.session_id, target.path)
        known = not done.existed or done.before is not None
        return WriteOutput(
            operation="write",
            target=str(target.path),
            resource=target.resource,
            existed=done.existed,
            files=(await asyncio.to_thread(file_diff, target.resource, done.before, done.after),) if known else (),
            note=ENDINGS_CHANGED if _loses_crlf(done.before or b"", done.after or b"") else None,
        )

    return Tool(
        description=DESCRIPTION, input=WriteInput, output=WriteOutput, execute=execute, content=_content, action="edit"
    )


async def _write_in_editor(
    files: LocationFiles, context: ToolContext, target: Target, given: WriteInput
) -> Mutation | None:
    """None if no editor writes the file."""
    if not files.unsaved.possible:
        return None
    unsaved = await files.unsaved.text(context.session_id, target)
    after = given.content.encode(errors="replace")
    try:
        saved = await asyncio.to_thread(read_file, target, MAX_FILE_BYTES)
    except (TargetMissing, FileTooLarge):
        saved = None
    if not await files.unsaved.write(context.session_id, target, after):
        if unsaved is not None:
            raise ToolFailure(UNSAVED.format(resource=target.resource))
        return None
    before = saved if unsaved is None else unsaved.encode(errors="replace")
    return Mutation(existed=before is not None, before=before, after=after)


def planned(files: LocationFiles, given: WriteInput) -> tuple[FileDiff, ...]:
    """What a call would change now. Nothing is written. Blocks."""
    with file_failures(f"Unable to write {given.path}"):
        target = files.resolve(given.path, "write")
        try:
            before = read_file(target, MAX_FILE_BYTES)
        except TargetMissing:
            before = None
        keep_crlf = files.settings().line_endings == "as_before"
        return (file_diff(target.resource, before, _encode(before, given, keep_crlf=keep_crlf)),)


def _content(given: WriteInput, value: dict[str, Any]) -> Sequence[TextContent]:
    text = (WROTE if value["existed"] else CREATED).format(resource=value["resource"])
    return [TextContent(text=f"{text}\n{value['note']}" if "note" in value else text)]


def _encode(before: bytes | None, given: WriteInput, *, keep_crlf: bool) -> bytes:
    convert = keep_crlf and _loses_crlf(before or b"", given.content.encode(errors="surrogatepass"))
    return encode_like(before, given.content.replace("\n", "\r\n") if convert else given.content)


def _loses_crlf(before: bytes, after: bytes) -> bool:
    """Whether every line ended in CRLF before and none does after."""
    ends = before.count(b"\n")
    return 0 < ends == before.count(b"\r\n") and b"\n" in after and b"\r\n" not in after
