"""The bytes behind the address of an attachment: a file, some of its lines, or the listing of a directory.

Lines are chosen with `?start=` and `?end=` of a `file:` address: counted from 1, both inclusive, text only."""

from __future__ import annotations

import io
import os
import stat
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from holdfast.core.filesystem.canonical import is_folder, printable
from holdfast.core.filesystem.content import MEDIA_BYTES, TEXT_BYTES, Content, Unusable
from holdfast.core.filesystem.descriptor import open_entry
from holdfast.core.filesystem.errors import FileError
from holdfast.core.filesystem.text import SAMPLE_BYTES, decode, is_binary
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from holdfast.core.filesystem.location_path import Target

DIRECTORY = "application/x-directory"
ENTRIES = 500
LINE_DIGITS = 9
NOTE_BYTES = 100
LF = "\n"
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Opening does not wait for the other end of a pipe."""


class LineRange(Frozen):
    start: int
    end: int | None = None
    """The last line; None for the end of the file."""


class Address(Frozen):
    path: Path
    lines: LineRange | None


class Source(Frozen):
    data: bytes
    claimed: str


def read_address(uri: str, directory: Path, claimed: str) -> Source | Content:
    """What a `file:` address or a path names; a directory is its listing. Raises Unusable."""
    address = parse_address(uri, directory)
    try:
        handle = os.open(address.path, FLAGS)
        try:
            return read_handle(handle, claimed, address.lines)
        finally:
            os.close(handle)
    except OSError as error:
        raise Unusable(error.strerror or type(error).__name__) from error


def read_target(target: Target, claimed: str, lines: LineRange | None) -> Source | Content:
    """The same of a path that was resolved, without following links. Raises Unusable."""
    try:
        handle = open_entry(target)
        try:
            return read_handle(handle, claimed, lines)
        finally:
            os.close(handle)
    except FileError as error:
        raise Unusable(str(error)) from error
    except OSError as error:
        raise Unusable(error.strerror or type(error).__name__) from error


def read_handle(handle: int, claimed: str, lines: LineRange | None) -> Source | Content:
    """The content of an open file or directory. Raises Unusable and OSError."""
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        if lines is not None:
            raise Unusable("it is a directory and has no lines")
        return Content("text", DIRECTORY, _listing(handle))
    if not stat.S_ISREG(mode):
        raise Unusable("it is neither a file nor a directory")
    data = _read(handle)
    return Source(data if lines is None else _select(data, lines), claimed)


def parse_address(uri: str, directory: Path) -> Address:
    """Raises Unusable for an address that names no file of this machine."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise Unusable("its address cannot be read") from None
    if parts.scheme not in ("file", ""):
        raise Unusable(f"only file: and data: addresses can be attached, not {parts.scheme}:")
    if parts.netloc not in ("", "localhost"):
        raise Unusable("a file: address names a file of this machine, not of another host")
    name = unquote(parts.path) if parts.scheme else uri
    if "\0" in name or not name:
        raise Unusable("its address cannot be read")
    return Address(directory / name, _lines(parts.query) if parts.scheme else None)


def check_lines(lines: LineRange) -> LineRange:
    """Raises Unusable for lines that no file can have."""
    if lines.start < 1 or (lines.end is not None and lines.end < lines.start):
        shown = f"{lines.start}-{'' if lines.end is None else lines.end}"
        raise Unusable(f"{shown} is not a range of lines, which are counted from 1")
    return lines


def _lines(query: str) -> LineRange | None:
    given = parse_qs(query, keep_blank_values=True)
    if "start" not in given and "end" not in given:
        return None
    end = _number(given["end"][0]) if "end" in given else None
    return check_lines(LineRange(_number(given.get("start", ["1"])[0]), end))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= LINE_DIGITS):
        raise Unusable(f"{text[:40]!r} is not the number of a line")
    return int(text)


def _read(handle: int) -> bytes:
    """Read at most one byte more than allowed."""
    if os.fstat(handle).st_size > MEDIA_BYTES:
        raise Unusable(f"it has more than {MEDIA_BYTES} bytes")
    data = bytearray()
    while len(data) <= MEDIA_BYTES and (chunk := os.read(handle, min(1 << 20, MEDIA_BYTES + 1 - len(data)))):
        data += chunk
    return bytes(data)


def _select(data: bytes, chosen: LineRange) -> bytes:
    """The chosen lines as UTF-8, as many as can be attached. A note at the end tells where a range is cut, or that it
    goes beyond the last line."""
    text = None if is_binary(data[:SAMPLE_BYTES]) else decode(data)
    if text is None:
        raise Unusable("lines can be chosen only from a text file")
    lines = io.StringIO(text.content, newline=LF)
    skipped = deque(enumerate(islice(lines, chosen.start - 1), 1), maxlen=1)
    last = skipped[0][0] if skipped else 0
    found: list[bytes] = []
    room = TEXT_BYTES - NOTE_BYTES
    for last, line in enumerate(islice(lines, _count(chosen)), chosen.start):
        found.append(line.encode("utf-8", "replace")[:room])
        room -= len(found[-1])
        if room <= 0:
            return _noted(found, f"[cut here, in line {last}]")
    if not found:
        raise Unusable(f"it has {last} line{'' if last == 1 else 's'}")
    if chosen.end is not None and last < chosen.end:
        return _noted(found, f"[the file has {last} line{'' if last == 1 else 's'}]")
    return b"".join(found)


def _noted(lines: list[bytes], note: str) -> bytes:
    text = b"".join(lines).decode("utf-8", "ignore")  # the last character may be cut
    return f"{text}{'' if text.endswith(LF) else LF}{note}".encode()


def _count(chosen: LineRange) -> int | None:
    return None if chosen.end is None else chosen.end - chosen.start + 1


def _listing(handle: int) -> str:
    with os.scandir(handle) as found:
        names = sorted(printable(entry.name) + ("/" if is_folder(entry) else "") for entry in _some(found))
    more = "\n[more entries are not shown]" if len(names) > ENTRIES else ""
    return "\n".join(names[:ENTRIES]) + more


def _some(found: Iterable[os.DirEntry[str]]) -> Iterable[os.DirEntry[str]]:
    for number, entry in enumerate(found):
        if number > ENTRIES:
            return
        yield entry
