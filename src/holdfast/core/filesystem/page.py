"""Reads a page of lines from a file or text: as many as fit, long lines cut, and the next offset. Stops reading after
the page."""

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


class PageLine(Protocol):
    """A line that is decoded only if it is on the page."""

    def text(self, resource: str) -> str: ...


class LinePage(Frozen):
    lines: list[str]
    offset: int
    following: int | None
    """The number of the first line after the page; None at the end of the file."""
    passed: int
    """The number of lines read, including those before the page."""


class PageLimits(Frozen):
    lines: int
    size: int
    """In bytes, counting each line as it is shown: `<number>: <line>`."""


def page_of(lines: Iterator[PageLine], offset: int, limits: PageLimits, resource: str) -> LinePage:
    """A page has at least one line, whatever its size."""
    found: list[str] = []
    size = number = 0
    for number, line in enumerate(lines, 1):
        if number < offset:
            continue
        if len(found) == limits.lines:
            return LinePage(found, offset, number, number)
        text = _cut(line.text(resource))
        size += len(text.encode()) + len(str(number)) + 3
        if found and size > limits.size:
            return LinePage(found, offset, number, number)
        found.append(text)
    return LinePage(found, offset, None, number)


def page_of_text(content: str, offset: int, limits: PageLimits, resource: str) -> LinePage:
    """Like `page_of`, for a text without NUL in memory. Faster for a text that fits as a whole."""
    lines = to_lf(content).split("\n")
    if not lines[-1]:
        lines.pop()
    count = len(lines)
    size = len(content.encode()) + count * (len(str(count)) + 3)
    if (
        offset == 1
        and count <= limits.lines
        and size <= limits.size
        and max(map(len, lines), default=0) <= LINE_CHARACTERS
    ):
        return LinePage(lines, 1, None, count)
    return page_of(map(_Decoded, lines), offset, limits, resource)


def lines_of_file(file: BinaryIO, encoding: Encoding) -> Iterator[PageLine]:
    """All lines of the file; keeps one line in memory."""
    file.seek(len(encoding.bom))
    return _utf8_lines(file) if encoding.name == UTF8.name else _decoded_lines(file, encoding)


def _utf8_lines(file: BinaryIO) -> Iterator[PageLine]:
    while raw := file.readline(LINE_BYTES):
        whole = raw.endswith(b"\n")
        yield _Raw(raw, cut=not whole and _skip(file))


def _skip(file: BinaryIO) -> bool:
    """Skip the rest of an overlong line; False if there was none."""
    skipped = False
    while rest := file.readline(SKIP_BYTES):
        skipped = True
        if rest.endswith(b"\n"):
            break
    return skipped


def _decoded_lines(file: BinaryIO, encoding: Encoding) -> Iterator[PageLine]:
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
        # The caller closes the file.
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
            # Only a line that was cut here may end inside a character.
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
