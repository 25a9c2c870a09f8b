"""The `read` tool: a text file, whole or in pages of lines; an image; or the entries of a directory."""

import asyncio
import base64
import io
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.core.filesystem.descriptor import open_file
from holdfast.core.filesystem.errors import NotText, TargetMissing, WrongKind
from holdfast.core.filesystem.image import ImageError, image_type, normalize
from holdfast.core.filesystem.listing import DirectoryEntry, list_directory, names_beside
from holdfast.core.filesystem.location_files import FileSettings, LocationFiles
from holdfast.core.filesystem.location_path import Target
from holdfast.core.filesystem.text import (
    BOM,
    SAMPLE_BYTES,
    UTF8,
    UTF8_BOM,
    Encoding,
    bom_encoding,
    decode,
    guess_encoding,
    is_binary,
)
from holdfast.core.tool.builtin.authorize import Authorizer, allow_read, file_failures
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record
from holdfast.schema.session_message import FileContent, TextContent, ToolContent

if TYPE_CHECKING:
    import difflib

    from holdfast.core.filesystem import page as paging
else:
    difflib = deferred("difflib")
    paging = deferred("holdfast.core.filesystem.page")

WHOLE_BYTES = 50 * 1024
PAGE_LINES = 2000
MEDIA_BYTES = 20 * 1024 * 1024
DEADLINE = 30.0
DECODING_DEADLINE = 10.0
SIBLINGS_COMPARED = 1000
FRAME_LINES = 3
FRAME_BYTES = 256
"""Reserved for the header and footer of a page."""

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
    path: Annotated[str, Meta(description="The file or directory, relative to the working directory or absolute")]
    offset: Annotated[int, Meta(ge=1, description="First line or entry to return, counted from 1")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=PAGE_LINES, description="How many lines or entries at most")] | UnsetType = (
        UNSET
    )


class ReadOutput(Record):
    result: dict[str, Any]
    """The structured value."""
    text: str
    media: FileContent | None = None


def read_tool(
    files: LocationFiles,
    permissions: Authorizer,
    *,
    on_read: Callable[[ToolContext, Path], Awaitable[None]] | None = None,
) -> Tool[ReadInput, ReadOutput]:
    async def execute(given: ReadInput, context: ToolContext) -> ReadOutput:
        with file_failures(f"Unable to read {given.path}"):
            target = files.resolve(given.path, kind="directory")
        await allow_read(permissions, context, target)
        with file_failures(f"Unable to read {given.path}"):
            request = _ReadRequest(given, target, files.settings())
            unsaved = await files.unsaved.text(context.session_id, target)
            output, status = await (_read(request) if unsaved is None else _read_unsaved(request, unsaved))
        if status is not None:
            files.fingerprints.note(context.session_id, target.path, status)
        if on_read is not None:
            await on_read(context, target.path)
        return output

    return Tool(
        read_only=True,
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


class _ReadRequest(Frozen):
    """One call: its input, the resolved target and the settings."""

    given: ReadInput
    target: Target
    settings: FileSettings

    @property
    def offset(self) -> int:
        return 1 if self.given.offset is UNSET else self.given.offset

    @property
    def is_paged(self) -> bool:
        return self.given.offset is not UNSET or self.given.limit is not UNSET

    @property
    def limits(self) -> "paging.PageLimits":
        limit = PAGE_LINES if self.given.limit is UNSET else self.given.limit
        size = self.settings.output_bytes - FRAME_BYTES - len(self.given.path.encode())
        return paging.PageLimits(max(1, min(limit, self.settings.output_lines - FRAME_LINES)), size)


class _Image(Frozen):
    data: bytes
    mime: str


async def _read(request: _ReadRequest) -> tuple[ReadOutput, os.stat_result | None]:
    """The output and, for a file, its status when it was read. A small text file is read on the event loop; anything
    else could block it and is read in a thread."""
    try:
        with os.fdopen(open_file(request.target), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size <= WHOLE_BYTES and (output := _small_text(file, request)) is not None:
                return output, status
        async with asyncio.timeout(DEADLINE):
            content, status = await asyncio.to_thread(_read_any, request)
        return await _media(content, request) if isinstance(content, _Image) else content, status
    except TargetMissing:
        similar = await asyncio.to_thread(_similar, request)
        raise ToolFailure(f"File not found: {request.given.path}{similar}") from None
    except (NotText, ImageError) as error:
        raise ToolFailure(str(error)) from None
    except WrongKind as error:
        if error.kind != "directory":
            raise ToolFailure(f"Path is not a file or directory: {request.given.path}") from None
    async with asyncio.timeout(DEADLINE):
        return _listing(request, await asyncio.to_thread(list_directory, request.target)), None


async def _read_unsaved(request: _ReadRequest, text: str) -> tuple[ReadOutput, os.stat_result | None]:
    """A file as the editor has it. A later write is not held back because of the difference to the disk."""
    data = text.encode(errors="replace")
    async with asyncio.timeout(DEADLINE):
        with io.BytesIO(data) as file:
            output = await asyncio.to_thread(_text, file, file.read(SAMPLE_BYTES), len(data), request)
    try:
        return output, os.stat(request.target.path)
    except OSError:
        return output, None


def _small_text(file: BinaryIO, request: _ReadRequest) -> ReadOutput | None:
    """None if it is an image, binary or not UTF-8."""
    data = file.read(WHOLE_BYTES + 1)
    if len(data) > WHOLE_BYTES or image_type(data) or _is_binary_file(data, request):
        return None
    try:
        content = data.decode()
    except UnicodeDecodeError:
        return None
    return _whole(content, UTF8_BOM if content.startswith(BOM) else UTF8, request)


def _read_any(request: _ReadRequest) -> tuple[ReadOutput | _Image, os.stat_result]:
    """Read any kind of file; blocks."""
    with os.fdopen(open_file(request.target), "rb") as file:
        status = os.fstat(file.fileno())
        head = file.read(SAMPLE_BYTES)
        if (mime := image_type(head)) is not None:
            return _image(file, head, mime, request), status
        if _is_binary_file(head, request):
            return _binary(file, head, request), status
        return _text(file, head, status.st_size, request), status


def _text(file: BinaryIO, head: bytes, size: int, request: _ReadRequest) -> ReadOutput:
    resource = request.target.resource
    if size <= WHOLE_BYTES:
        text = decode(head + file.read(WHOLE_BYTES))
        if text is None:
            raise paging.malformed(resource, UTF8)
        return _whole(text.content, text.encoding, request)
    encoding = bom_encoding(head) or (UTF8 if _is_utf8(head) else Encoding(guess_encoding(head) or "utf-8"))
    page = paging.page_of(paging.lines_of_file(file, encoding), request.offset, request.limits, resource)
    return _page_output(page, encoding, request)


def _whole(content: str, encoding: Encoding, request: _ReadRequest) -> ReadOutput:
    content = content.removeprefix(BOM)
    page = paging.page_of_text(content, request.offset, request.limits, request.target.resource)
    if request.is_paged:
        return _page_output(page, encoding, request)
    result = {**_file(request), "content": content, "encoding": "utf8", "mime": _mime(request)}
    return ReadOutput(result={**result, **_charset(encoding)}, text=_shown(page, encoding, request))


def _page_output(page: "paging.LinePage", encoding: Encoding, request: _ReadRequest) -> ReadOutput:
    if not page.lines and request.offset != 1:
        count = f"{page.passed} line{'' if page.passed == 1 else 's'}"
        raise ToolFailure(f"Offset {request.offset} is out of range ({request.given.path} has {count})")
    result: dict[str, Any] = {
        "type": "text-page",
        "content": "\n".join(page.lines),
        "mime": _mime(request),
        "offset": page.offset,
        "truncated": page.following is not None,
    }
    if page.following is not None:
        result["next"] = page.following
    return ReadOutput(result={**result, **_charset(encoding)}, text=_shown(page, encoding, request))


def _shown(page: "paging.LinePage", encoding: Encoding, request: _ReadRequest) -> str:
    """A header, the numbered lines, and the next offset."""
    path = request.given.path + ("" if encoding == UTF8 else f" [{encoding.name}{', marked' if encoding.bom else ''}]")
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


def _is_binary_file(head: bytes, request: _ReadRequest) -> bool:
    return request.target.path.suffix.lower() in BINARY_EXTENSIONS or is_binary(head[:SAMPLE_BYTES])


def _binary(file: BinaryIO, head: bytes, request: _ReadRequest) -> ReadOutput:
    data = head + file.read(WHOLE_BYTES + 1 - len(head)) if len(head) <= WHOLE_BYTES else head
    if request.settings.binary_files == "refuse" or len(data) > WHOLE_BYTES:
        raise paging.binary(request.target.resource)
    mime = _mime(request, "application/octet-stream")
    content = base64.b64encode(data).decode()
    result = {**_file(request), "content": content, "encoding": "base64", "mime": mime}
    return ReadOutput(result=result, text=f"{request.given.path} is a binary file: {mime}, {len(data)} bytes")


def _image(file: BinaryIO, head: bytes, mime: str, request: _ReadRequest) -> _Image:
    data = head + file.read(MEDIA_BYTES + 1 - len(head))
    if len(data) > MEDIA_BYTES:
        raise ImageError(f"Media exceeds {MEDIA_BYTES} byte ingestion limit: {request.target.resource}")
    return _Image(data, mime)


async def _media(image: _Image, request: _ReadRequest) -> ReadOutput:
    async with asyncio.timeout(DECODING_DEADLINE):
        data, mime = await asyncio.to_thread(
            normalize, image.data, image.mime, request.target.resource, request.settings.image
        )
    content = base64.b64encode(data).decode()
    return ReadOutput(
        result={**_file(request), "content": content, "encoding": "base64", "mime": mime},
        text=IMAGE_READ,
        media=FileContent(uri=f"data:{mime};base64,{content}", mime=mime, name=request.given.path),
    )


def _listing(request: _ReadRequest, entries: list[DirectoryEntry]) -> ReadOutput:
    offset, limits = request.offset, request.limits
    if offset > max(1, len(entries)):
        raise ToolFailure(f"Offset {offset} is out of range ({request.given.path} has {len(entries)} entries)")
    shown: list[DirectoryEntry] = []
    size = 0
    for entry in entries[offset - 1 : offset - 1 + limits.lines]:
        size += len(entry.path.encode()) + 1
        if shown and size > limits.size:
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
    header = f"{request.given.path} has {count}" if entries else f"{request.given.path} is empty"
    more = [MORE.format(following=following)] if truncated else []
    return ReadOutput(result=result, text="\n".join([header, *(entry.path for entry in shown), *more]))


def _similar(request: _ReadRequest) -> str:
    """Suggest similar names in the same directory."""
    names = names_beside(request.target, SIBLINGS_COMPARED)
    close = difflib.get_close_matches(request.target.path.name, names, n=3)
    directory = os.path.dirname(request.given.path)
    return f". Similar: {', '.join(os.path.join(directory, name) for name in close)}" if close else ""


def _file(request: _ReadRequest) -> dict[str, Any]:
    return {"uri": request.target.path.as_uri(), "name": request.target.path.name}


def _mime(request: _ReadRequest, default: str = "text/plain") -> str:
    import mimetypes

    return mimetypes.guess_type(request.target.path.name)[0] or default
