"""The `edit` tool: replaces text in one file."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from holdfast.core.filesystem.descriptor import read_file
from holdfast.core.filesystem.diff import FileDiff, file_diff
from holdfast.core.filesystem.editor_files import UNSAVED
from holdfast.core.filesystem.errors import NotText, StaleContent
from holdfast.core.filesystem.location_files import LocationFiles
from holdfast.core.filesystem.location_path import Target
from holdfast.core.filesystem.mutation import MAX_FILE_BYTES
from holdfast.core.filesystem.text import decode
from holdfast.core.permission.protected import effect_on_file
from holdfast.core.tool.builtin.authorize import AuthorityOf, Authorizer, allow_files, allow_outside, file_failures
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from holdfast.core.tool.builtin import replacement
else:
    replacement = deferred("holdfast.core.tool.builtin.replacement")

DESCRIPTION = (
    "Replace text in a file. oldString must occur in it exactly once, or give replaceAll; copy it from what `read` "
    "showed, without the line numbers."
)
SAME = "Nothing to change: old and new text are the same."
EMPTY = "oldString is empty; the write tool creates or replaces whole files."
STALE = "The file was modified while approval was pending; read it again first."
EDITED = "Edited file successfully: {resource}"
LOOSELY = "oldString was not found exactly; it was matched {way}."
PREVIEW_LINES = 6
PREVIEW_CHARACTERS = 240


class EditInput(msgspec.Struct, frozen=True, rename="camel"):
    path: Annotated[str, msgspec.Meta(description="The file, relative to the working directory or absolute")]
    old_string: Annotated[str, msgspec.Meta(description="The text to replace")]
    new_string: Annotated[str, msgspec.Meta(description="What comes in its place")]
    replace_all: Annotated[bool, msgspec.Meta(description="Replace every occurrence")] = False


class EditOutput(Record):
    files: tuple[FileDiff, ...]
    replacements: int
    matched: str | None = None
    """How oldString was matched, if not exactly."""


def edit_tool(
    files: LocationFiles, permissions: Authorizer, authority_of: AuthorityOf | None = None
) -> Tool[EditInput, EditOutput]:
    """A failure quotes a file only if the caller may read it without asking."""

    async def may_quote(target: Target, context: ToolContext) -> bool:
        if authority_of is None:
            return True
        return effect_on_file(await authority_of(context), "read", target.resource, str(target.path)) == "allow"

    async def execute(given: EditInput, context: ToolContext) -> EditOutput:
        if given.old_string == given.new_string:
            raise ToolFailure(SAME)
        if not given.old_string:
            raise ToolFailure(EMPTY)
        unable = f"Unable to edit {given.path}"
        with file_failures(unable):
            target = files.resolve(given.path, "write")
        await allow_outside(permissions, context, [target])
        await allow_files(permissions, context, "edit", [target])
        with file_failures(unable):
            unsaved = await files.unsaved.text(context.session_id, target)
            try:
                edit = await asyncio.to_thread(_prepare, target, given, unsaved)
            except replacement.TextNotMatched as mismatch:
                shown = str(mismatch) if await may_quote(target, context) else mismatch.reason
                raise ToolFailure(shown) from None
            if not await files.unsaved.write(context.session_id, target, edit.after):
                if unsaved is not None:
                    raise ToolFailure(UNSAVED.format(resource=target.resource))
                try:
                    await files.mutations.write_if_unchanged(target, edit.before, edit.after)
                except StaleContent:
                    raise ToolFailure(STALE) from None
        files.fingerprints.note(context.session_id, target.path)
        return edit.output

    return Tool(
        description=DESCRIPTION, input=EditInput, output=EditOutput, execute=execute, content=_content, action="edit"
    )


def planned(files: LocationFiles, given: EditInput) -> tuple[FileDiff, ...]:
    """What a call would change now. Nothing is written. Blocks."""
    with file_failures(f"Unable to edit {given.path}"):
        try:
            return _prepare(files.resolve(given.path, "write"), given).output.files
        except replacement.TextNotMatched as mismatch:
            raise ToolFailure(mismatch.reason) from None


class _Edit(Frozen):
    before: bytes
    after: bytes
    output: EditOutput


def _prepare(target: Target, given: EditInput, unsaved: str | None = None) -> _Edit:
    """`unsaved` is the text in an editor, if it is another one than on the disk. Raises TextNotMatched."""
    before = read_file(target, MAX_FILE_BYTES) if unsaved is None else unsaved.encode(errors="replace")
    text = decode(before)
    if text is None:
        raise NotText("it is not valid UTF-8")
    replaced = replacement.replace(text.content, given.old_string, given.new_string, every=given.replace_all)
    after = text.encode(replaced.content)
    if after == before:
        raise ToolFailure(SAME)
    diff = file_diff(target.resource, before, after)
    return _Edit(before, after, EditOutput(files=(diff,), replacements=replaced.replacements, matched=replaced.way))


def _content(given: EditInput, value: dict[str, Any]) -> Sequence[TextContent]:
    lines = [EDITED.format(resource=value["files"][0]["file"]), f"Replacements: {value['replacements']}"]
    if "matched" in value:
        lines.append(LOOSELY.format(way=value["matched"]))
    lines += ["```diff", *_preview("-", given.old_string), *_preview("+", given.new_string), "```"]
    return [TextContent(text="\n".join(lines))]


def _preview(sign: str, text: str) -> Iterator[str]:
    lines = text.split("\n")
    for line in lines[:PREVIEW_LINES]:
        yield sign + (line if len(line) <= PREVIEW_CHARACTERS else line[:PREVIEW_CHARACTERS] + "...")
    if len(lines) > PREVIEW_LINES:
        yield f"{sign}..."
