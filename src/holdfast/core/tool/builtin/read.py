"""`read`: a text file of the Location, whole when small, else by pages of lines. Nothing outside is opened."""

from __future__ import annotations

import asyncio
import mimetypes
import os
import stat
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import msgspec

from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure

if TYPE_CHECKING:
    from pathlib import Path

WHOLE_BYTES = 50 * 1024
PAGE_LINES = 2000
LINE_CHARACTERS = 2000
LINE_CUT = f"... (line truncated to {LINE_CHARACTERS} chars)"
SNIFF_BYTES = 64 * 1024
LINE_BYTES = 8 * LINE_CHARACTERS


class ReadInput(msgspec.Struct, frozen=True):
    path: Annotated[str, msgspec.Meta(description="The file, relative to the working directory or absolute")]
    offset: (
        Annotated[int, msgspec.Meta(ge=1, description="First line to return, counted from 1")] | msgspec.UnsetType
    ) = msgspec.UNSET
    limit: (
        Annotated[int, msgspec.Meta(ge=1, le=PAGE_LINES, description="How many lines at most")] | msgspec.UnsetType
    ) = msgspec.UNSET


def read_tool(location: Path) -> Tool[ReadInput, dict[str, Any]]:
    root = location.resolve()

    async def execute(given: ReadInput, context: ToolContext) -> dict[str, Any]:
        # A small file is read here and now; anything else could hold up the loop.
        if _size(root, given.path) <= WHOLE_BYTES:
            return read(root, given)
        return await asyncio.to_thread(read, root, given)

    description = "Read a text file. Returns the whole file when it is small, otherwise a page of lines."
    return Tool(description=description, input=ReadInput, output=dict[str, Any], execute=execute)


def read(root: Path, given: ReadInput) -> dict[str, Any]:
    path = resolve(root, given.path)
    handle = _open(path, given.path)
    with os.fdopen(handle, "rb") as file:
        head = file.read(SNIFF_BYTES)
        if _is_binary(head):
            raise ToolFailure(f"Cannot read binary file: {given.path}")
        mime = mimetypes.guess_type(path.name)[0] or "text/plain"
        size = os.fstat(handle).st_size
        paged = given.offset is not msgspec.UNSET or given.limit is not msgspec.UNSET
        if size <= WHOLE_BYTES and not paged:
            content = _text(head + file.read(), given.path)
            return {"uri": path.as_uri(), "name": path.name, "content": content, "encoding": "utf8", "mime": mime}
        file.seek(0)
        offset = 1 if given.offset is msgspec.UNSET else given.offset
        limit = PAGE_LINES if given.limit is msgspec.UNSET else given.limit
        return {"type": "text-page", "mime": mime, **_page(file, offset, limit, given.path)}


def resolve(root: Path, path: str) -> Path:
    """The real path, which must lie inside the Location, links resolved."""
    if not path or "\0" in path or len(path) > 4096:
        raise ToolFailure("Unable to read: the path is empty, too long or malformed")
    try:
        real = (root / path).resolve()
    except (OSError, RuntimeError):
        raise ToolFailure(f"Unable to read {path}: its links lead nowhere") from None
    if real != root and root not in real.parents:
        raise ToolFailure(f"Unable to read {path}: it is outside the working directory")
    return real


def _size(root: Path, path: str) -> int:
    try:
        return os.stat(root / path).st_size
    except (OSError, ValueError):
        return 0


def _open(path: Path, shown: str) -> int:
    """Never blocks: a pipe or device is opened non-blocking, seen for what it is, and closed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ToolFailure(f"File not found: {shown}") from None
    except OSError as error:
        raise ToolFailure(f"Unable to read {shown}: {error.strerror}") from None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise ToolFailure(f"Path is not a regular file: {shown}")


def _page(file: BinaryIO, offset: int, limit: int, shown: str) -> dict[str, Any]:
    """Lines from `offset` on, until the page is full. What comes after it is not looked at."""
    lines: list[str] = []
    size = number = 0
    following: int | None = None
    while raw := file.readline(LINE_BYTES):
        number += 1
        cut = not raw.endswith(b"\n") and _skip_line(file)
        if number < offset:
            continue
        if len(lines) == limit:
            following = number
            break
        line = _cut(_line(raw, shown, cut=cut))
        size += len(line.encode()) + 1
        if lines and size > WHOLE_BYTES:
            following = number
            break
        lines.append(line)
    if not lines and offset != 1:
        raise ToolFailure(f"Offset {offset} is out of range ({shown} has {number} lines)")
    page: dict[str, Any] = {"content": "\n".join(lines), "offset": offset, "truncated": following is not None}
    return page if following is None else {**page, "next": following}


def _skip_line(file: BinaryIO) -> bool:
    """Pass over the rest of an overlong line without keeping it; whether there was any."""
    skipped = False
    while rest := file.readline(SNIFF_BYTES):
        skipped = True
        if rest.endswith(b"\n"):
            break
    return skipped


def _line(raw: bytes, shown: str, *, cut: bool) -> str:
    if b"\0" in raw:
        raise ToolFailure(f"Cannot read binary file: {shown}")
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        # Only a line that we cut ourselves may end inside a character.
        if cut and error.end == len(raw) and len(raw) - error.start < 4:
            return raw[: error.start].decode("utf-8")
        raise ToolFailure(f"File is not valid UTF-8: {shown}") from None


def _cut(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS else line[:LINE_CHARACTERS] + LINE_CUT


def _text(data: bytes, shown: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolFailure(f"File is not valid UTF-8: {shown}") from None


def _is_binary(head: bytes) -> bool:
    if b"\0" in head or head.startswith(b"%PDF"):
        return True
    return len(head) - len(head.translate(None, _CONTROL)) > len(head) * 0.3


_CONTROL = bytes([*range(9), *range(14, 32)])
