"""`read`: a text file by whole or by pages of lines, an image, or the entries of a directory."""

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec

from holdfast.core.filesystem.descriptor import open_file
from holdfast.core.filesystem.errors import NotText, TargetMissing, WrongKind
from holdfast.core.filesystem.image import ImageError, image_type, normalize
from holdfast.core.filesystem.listing import Entry, list_directory, names_beside
from holdfast.core.filesystem.location_files import FileSettings, LocationFiles
from holdfast.core.filesystem.location_path import Target
from holdfast.core.filesystem.page import Page, Room, binary, lines_of_file, malformed, page_of, page_of_text
from holdfast.core.filesystem.text import SAMPLE_BYTES, UTF8, Encoding, decode, guess_encoding, is_binary, marked
from holdfast.core.tool.builtin.authorize import Authorizer, allow_outside, explaining, narrowest_first
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record
from holdfast.schema.session_message import FileContent, TextContent, ToolContent

WHOLE_BYTES = 50 * 1024
PAGE_LINES = 2000
MEDIA_BYTES = 20 * 1024 * 1024
DEADLINE = 30.0
DECODING_DEADLINE = 10.0
SIBLINGS_COMPARED = 1000
FRAME_LINES = 3
FRAME_BYTES = 256
"""Room for the words around a page."""

DESCRIPTION = (
    "Read a file or list a directory. A small text file comes whole, a larger one by pages of numbered lines; an image "
    "comes as an image. Use offset and limit to go on where a page ended."
)
MORE = "(next offset: {following})"
IMAGE_READ = "Image read successfully"

# fmt: off
BINARY_EXTENSIONS = frozenset({
    ".zip", ".tar", ".gz", ".exe", ".dll", ".so", ".class", ".jar", ".war", ".7z", ".doc", ".docx", ".xls", ".xlsx",
    ".ppt", ".pptx", ".odt", ".ods", ".odp", ".bin", ".dat", ".obj", ".o", ".a", ".lib", ".wasm", ".pyc", ".pyo",
})
# fmt: on


class ReadInput(msgspec.Struct, frozen=True):
    path: Annotated[
        str, msgspec.Meta(description="The file or directory, relative to the working directory or absolute")
    ]
    offset: (
        Annotated[int, msgspec.Meta(ge=1, description="First line or entry to return, counted from 1")]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    limit: (
        Annotated[int, msgspec.Meta(ge=1, le=PAGE_LINES, description="How many lines or entries at most")]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class ReadOutput(Record):
    result: dict[str, Any]
    """For Session consumers."""
    text: str
    media: FileContent | None = None


def read_tool(
    files: LocationFiles,
    permissions: Authorizer,
    *,
    on_read: Callable[[ToolContext, Path], Awaitable[None]] | None = None,
) -> Tool[ReadInput, ReadOutput]:
    async def execute(given: ReadInput, context: ToolContext) -> ReadOutput:
        with explaining(f"Unable to read {given.path}"):
            target = files.resolve(given.path, kind="directory")
        await allow_outside(permissions, context, [target])
        await permissions.allow(context, "read", [target.resource], save=narrowest_first(target.resource))
        with explaining(f"Unable to read {given.path}"):
            output, found = await _read(_Reading(given, target, files.settings()))
        if found is not None:
            files.marks.note(context.session_id, target.path, found)
        if on_read is not None:
            await on_read(context, target.path)
        return output

    return Tool(
        looks_only=True,
        description=DESCRIPTION,
        input=ReadInput,
        output=ReadOutput,
        execute=execute,
        content=_content,
        structured=lambda given, value: value["result"],
        structured_type=dict[str, Any],
    )


def _content(given: ReadInput, value: dict[str, Any]) -> Sequence[ToolContent]:
    text = TextContent(text=value["text"])
    return [text, msgspec.convert(value["media"], FileContent)] if "media" in value else [text]


class _Reading(NamedTuple):
    """One call: what was asked, where it leads, and how much fits."""

    given: ReadInput
    target: Target
    settings: FileSettings

    @property
    def offset(self) -> int:
        return 1 if self.given.offset is msgspec.UNSET else self.given.offset

    @property
    def is_paged(self) -> bool:
        return self.given.offset is not msgspec.UNSET or self.given.limit is not msgspec.UNSET

    @property
    def room(self) -> Room:
        limit = PAGE_LINES if self.given.limit is msgspec.UNSET else self.given.limit
        size = self.settings.output_bytes - FRAME_BYTES - len(self.given.path.encode())
        return Room(max(1, min(limit, self.settings.output_lines - FRAME_LINES)), size)


class _Image(Frozen):
    data: bytes
    mime: str


async def _read(reading: _Reading) -> tuple[ReadOutput, os.stat_result | None]:
    """The output and, of a file, the state it was read in. A small text file is read here and now; anything else could
    hold up the loop."""
    try:
        with os.fdopen(open_file(reading.target), "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size <= WHOLE_BYTES and (output := _small_text(file, reading)) is not None:
                return output, found
        async with asyncio.timeout(DEADLINE):
            content, found = await asyncio.to_thread(_read_any, reading)
        return await _media(content, reading) if isinstance(content, _Image) else content, found
    except TargetMissing:
        similar = await asyncio.to_thread(_similar, reading)
        raise ToolFailure(f"File not found: {reading.given.path}{similar}") from None
    except (NotText, ImageError) as error:
        raise ToolFailure(str(error)) from None
    except WrongKind as error:
        if error.kind != "directory":
            raise ToolFailure(f"Path is not a file or directory: {reading.given.path}") from None
    async with asyncio.timeout(DEADLINE):
        return _listing(reading, await asyncio.to_thread(list_directory, reading.target)), None


def _small_text(file: BinaryIO, reading: _Reading) -> ReadOutput | None:
    """None when it is no plain UTF-8 after all."""
    data = file.read(WHOLE_BYTES + 1)
    if len(data) > WHOLE_BYTES or image_type(data) or _is_refused(data, reading):
        return None
    try:
        content = data.decode()
    except UnicodeDecodeError:
        return None
    return _whole(content, UTF8 if not content.startswith("\ufeff") else Encoding("utf-8", data[:3]), reading)


def _read_any(reading: _Reading) -> tuple[ReadOutput | _Image, os.stat_result]:
    """Whatever it is, in a worker thread."""
    with os.fdopen(open_file(reading.target), "rb") as file:
        found = os.fstat(file.fileno())
        head = file.read(SAMPLE_BYTES)
        if (mime := image_type(head)) is not None:
            return _image(file, head, mime, reading), found
        if _is_refused(head, reading):
            return _binary(file, head, reading), found
        return _text(file, head, found.st_size, reading), found


def _text(file: BinaryIO, head: bytes, size: int, reading: _Reading) -> ReadOutput:
    resource = reading.target.resource
    if size <= WHOLE_BYTES:
        text = decode(head + file.read(WHOLE_BYTES))
        if text is None:
            raise malformed(resource, UTF8)
        return _whole(text.content, text.encoding, reading)
    encoding = marked(head) or (UTF8 if _is_utf8(head) else Encoding(guess_encoding(head) or "utf-8"))
    return _page_output(
        page_of(lines_of_file(file, encoding), reading.offset, reading.room, resource), encoding, reading
    )


def _whole(content: str, encoding: Encoding, reading: _Reading) -> ReadOutput:
    content = content.removeprefix("\ufeff")
    page = page_of_text(content, reading.offset, reading.room, reading.target.resource)
    if reading.is_paged:
        return _page_output(page, encoding, reading)
    result = {**_file(reading), "content": content, "encoding": "utf8", "mime": _mime(reading)}
    return ReadOutput(result={**result, **_charset(encoding)}, text=_shown(page, encoding, reading))


def _page_output(page: Page, encoding: Encoding, reading: _Reading) -> ReadOutput:
    if not page.lines and reading.offset != 1:
        count = f"{page.passed} line{'' if page.passed == 1 else 's'}"
        raise ToolFailure(f"Offset {reading.offset} is out of range ({reading.given.path} has {count})")
    result: dict[str, Any] = {
        "type": "text-page",
        "content": "\n".join(page.lines),
        "mime": _mime(reading),
        "offset": page.offset,
        "truncated": page.following is not None,
    }
    if page.following is not None:
        result["next"] = page.following
    return ReadOutput(result={**result, **_charset(encoding)}, text=_shown(page, encoding, reading))


def _shown(page: Page, encoding: Encoding, reading: _Reading) -> str:
    """A header, the numbered lines, and where to go on."""
    path = reading.given.path + ("" if encoding == UTF8 else f" [{encoding.name}{', marked' if encoding.mark else ''}]")
    if not page.lines:
        return f"{path} is empty"
    last = page.offset + len(page.lines) - 1
    total = f"of {page.passed}" if page.following is None else "and more"
    rows = [f"{number}: {line}" for number, line in enumerate(page.lines, page.offset)]
    more = [] if page.following is None else [MORE.format(following=page.following)]
    return "\n".join([f"{path}, lines {page.offset}-{last} {total}", *rows, *more])


def _is_utf8(sample: bytes) -> bool:
    try:
        sample.decode()
    except UnicodeDecodeError as error:
        # The sample may end inside a character.
        return error.end == len(sample) and len(sample) - error.start < 4
    return True


def _charset(encoding: Encoding) -> dict[str, str]:
    return {} if encoding.name == UTF8.name else {"charset": encoding.name}


def _is_refused(head: bytes, reading: _Reading) -> bool:
    return reading.target.path.suffix.lower() in BINARY_EXTENSIONS or is_binary(head[:SAMPLE_BYTES])


def _binary(file: BinaryIO, head: bytes, reading: _Reading) -> ReadOutput:
    import mimetypes

    data = head + file.read(WHOLE_BYTES + 1 - len(head)) if len(head) <= WHOLE_BYTES else head
    if reading.settings.binary_files == "refuse" or len(data) > WHOLE_BYTES:
        raise binary(reading.target.resource)
    mime = mimetypes.guess_type(reading.target.path.name)[0] or "application/octet-stream"
    content = base64.b64encode(data).decode()
    result = {**_file(reading), "content": content, "encoding": "base64", "mime": mime}
    return ReadOutput(result=result, text=f"{reading.given.path} is a binary file: {mime}, {len(data)} bytes")


def _image(file: BinaryIO, head: bytes, mime: str, reading: _Reading) -> _Image:
    data = head + file.read(MEDIA_BYTES + 1 - len(head))
    if len(data) > MEDIA_BYTES:
        raise ImageError(f"Media exceeds {MEDIA_BYTES} byte ingestion limit: {reading.target.resource}")
    return _Image(data, mime)


async def _media(image: _Image, reading: _Reading) -> ReadOutput:
    async with asyncio.timeout(DECODING_DEADLINE):
        data, mime = await asyncio.to_thread(
            normalize, image.data, image.mime, reading.target.resource, reading.settings.image
        )
    content = base64.b64encode(data).decode()
    return ReadOutput(
        result={**_file(reading), "content": content, "encoding": "base64", "mime": mime},
        text=IMAGE_READ,
        media=FileContent(uri=f"data:{mime};base64,{content}", mime=mime, name=reading.given.path),
    )


def _listing(reading: _Reading, entries: list[Entry]) -> ReadOutput:
    offset, room = reading.offset, reading.room
    if offset > max(1, len(entries)):
        raise ToolFailure(f"Offset {offset} is out of range ({reading.given.path} has {len(entries)} entries)")
    shown: list[Entry] = []
    size = 0
    for entry in entries[offset - 1 : offset - 1 + room.lines]:
        size += len(entry.path.encode()) + 1
        if shown and size > room.size:
            break
        shown.append(entry)
    following = offset + len(shown)
    truncated = following <= len(entries)
    result = {
        "entries": [{"path": entry.path, "type": entry.type} for entry in shown],
        "truncated": truncated,
        **({"next": following} if truncated else {}),
    }
    count = f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
    header = f"{reading.given.path} has {count}" if entries else f"{reading.given.path} is empty"
    more = [MORE.format(following=following)] if truncated else []
    return ReadOutput(result=result, text="\n".join([header, *(entry.path for entry in shown), *more]))


def _similar(reading: _Reading) -> str:
    """Names nearby that the caller may have meant."""
    import difflib

    names = names_beside(reading.target, SIBLINGS_COMPARED)
    close = difflib.get_close_matches(reading.target.path.name, names, n=3)
    directory = os.path.dirname(reading.given.path)
    return f". Similar: {', '.join(os.path.join(directory, name) for name in close)}" if close else ""


def _file(reading: _Reading) -> dict[str, Any]:
    return {"uri": reading.target.path.as_uri(), "name": reading.target.path.name}


def _mime(reading: _Reading) -> str:
    import mimetypes

    return mimetypes.guess_type(reading.target.path.name)[0] or "text/plain"
