"""A page of lines: as many as fit, long ones cut, and where to go on. What comes behind the page is not looked at."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, Protocol

from holdfast.core.filesystem.errors import NotText
from holdfast.core.filesystem.text import UTF8, Encoding, to_lf
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE_CHARACTERS = 2000
LINE_CUT = f"... (line truncated to {LINE_CHARACTERS} chars)"
LINE_BYTES = 8 * LINE_CHARACTERS
SKIP_BYTES = 64 * 1024


class Line(Protocol):
    """One line that was passed over; only those on the page are decoded."""

    def text(self, resource: str) -> str: ...


class Page(Frozen):
    lines: list[str]
    offset: int
    following: int | None
    """The first line that is not on the page; None when it reaches the end."""
    passed: int
    """How many lines were seen, those before the page included."""


class Room(Frozen):
    """What a page may fill, counted as it is shown: `<number>: <line>`."""

    lines: int
    size: int


def page_of(lines: Iterator[Line], offset: int, room: Room, resource: str) -> Page:
    """A page holds at least one line, whatever its size."""
    found: list[str] = []
    size = number = 0
    for number, line in enumerate(lines, 1):
        if number < offset:
            continue
        if len(found) == room.lines:
            return Page(found, offset, number, number)
        text = _cut(line.text(resource))
        size += len(text.encode()) + len(str(number)) + 3
        if found and size > room.size:
            return Page(found, offset, number, number)
        found.append(text)
    return Page(found, offset, None, number)


def page_of_text(content: str, offset: int, room: Room, resource: str) -> Page:
    """The same of a text in memory that has no NUL. One that fits as a whole, as most do, is not measured by lines."""
    lines = to_lf(content).split("\n")
    if not lines[-1]:
        lines.pop()
    count = len(lines)
    size = len(content.encode()) + count * (len(str(count)) + 3)
    if offset == 1 and count <= room.lines and size <= room.size and max(map(len, lines), default=0) <= LINE_CHARACTERS:
        return Page(lines, 1, None, count)
    return page_of(map(_Decoded, lines), offset, room, resource)


def lines_of_file(file: BinaryIO, encoding: Encoding) -> Iterator[Line]:
    """From the beginning of the file, in memory of one line."""
    file.seek(len(encoding.mark))
    return _utf8_lines(file) if encoding.name == UTF8.name else _decoded_lines(file, encoding)


def _utf8_lines(file: BinaryIO) -> Iterator[Line]:
    while raw := file.readline(LINE_BYTES):
        whole = raw.endswith(b"\n")
        yield _Raw(raw, cut=not whole and _skip(file))


def _skip(file: BinaryIO) -> bool:
    """Pass over the rest of an overlong line without keeping it; whether there was any."""
    skipped = False
    while rest := file.readline(SKIP_BYTES):
        skipped = True
        if rest.endswith(b"\n"):
            break
    return skipped


def _decoded_lines(file: BinaryIO, encoding: Encoding) -> Iterator[Line]:
    reader = io.TextIOWrapper(file, encoding.name, newline="\n")
    try:
        while text := reader.readline(LINE_CHARACTERS + 2):
            rest = text
            while rest and not rest.endswith("\n"):
                rest = reader.readline(SKIP_BYTES)
            yield _Decoded(text)
    except UnicodeDecodeError:
        yield _Broken(encoding)
    finally:
        # The file is the caller's to close.
        reader.detach()


class _Raw(Frozen):
    raw: bytes
    cut: bool

    def text(self, resource: str) -> str:
        if b"\0" in self.raw:
            raise binary(resource)
        raw = self.raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            # Only a line that we cut ourselves may end inside a character.
            if self.cut and error.end == len(raw) and len(raw) - error.start < 4:
                return raw[: error.start].decode()
            raise malformed(resource, UTF8) from None


class _Decoded(str):
    __slots__ = ()

    def text(self, resource: str) -> str:
        if "\0" in self:
            raise binary(resource)
        return self.removesuffix("\n").removesuffix("\r")


class _Broken(Frozen):
    encoding: Encoding

    def text(self, resource: str) -> str:
        raise malformed(resource, self.encoding)


def binary(resource: str) -> NotText:
    return NotText(f"Cannot read binary file: {resource}")


def malformed(resource: str, encoding: Encoding) -> NotText:
    return NotText(f"File is not valid {encoding.name.upper()}: {resource}")


def _cut(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS else line[:LINE_CHARACTERS] + LINE_CUT
