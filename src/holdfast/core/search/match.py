"""Parses the search engine's stream of JSON records into bounded matches."""

from __future__ import annotations

import base64
import logging
import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD_BYTES = 64 * 1024
LINE_CHARACTERS = 2000
CUT = "..."
SURROGATES = "surrogateescape"
MOST_SUBMATCHES = 100

log = logging.getLogger(__name__)


class Submatch(NamedTuple):
    text: str
    start: int
    end: int


class Match(NamedTuple):
    """Positions are in bytes: `offset` of the line in the file, positions of submatches in the line."""

    path: str
    """Bytes that are not UTF-8 are surrogates, so that it can be opened."""
    line: int
    offset: int
    text: str
    submatches: tuple[Submatch, ...]

    @property
    def order(self) -> tuple[list[str], int]:
        """Sort key in the engine's order: by path components, then by line."""
        return self.path.split("/"), self.line


class MatchReader:
    """An output sink for `Processes.run`. Returns False once it has `most` matches or `most_bytes` of text."""

    def __init__(self, keep: Callable[[str], bool], most: int, most_bytes: int) -> None:
        self.matches: list[Match] = []
        self.complete = False
        """Whether the engine printed its summary, which it does at the end, even after errors."""
        self.enough = False
        self._keep = keep
        self._most = most
        self._left = most_bytes
        self._kept: dict[str, bool] = {}
        self._pending = bytearray()
        self._overlong: _Overlong | None = None

    def __call__(self, chunk: bytes) -> bool:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._record_end(end)
            if len(self.matches) >= self._most or self._left < 0:
                self.enough = True
                return False
        self._gather(rest)
        return True

    def _gather(self, part: bytes) -> None:
        if self._overlong is not None:
            self._overlong.add(part)
            return
        self._pending += part
        if len(self._pending) > RECORD_BYTES:
            self._overlong = _Overlong(bytes(self._pending))
            self._pending.clear()

    def _record_end(self, end: bytes) -> None:
        self._gather(end)
        if self._overlong is not None:
            match = self._overlong.match()
            self._overlong = None
        elif self._pending.startswith(_MATCH):
            match = _match(bytes(self._pending))
        else:
            self.complete = self.complete or b'"type":"summary"' in self._pending
            match = None
        self._pending.clear()
        if match is not None and self._wanted(match.path):
            self.matches.append(match)
            self._left -= len(match.text) + sum(len(one.text) for one in match.submatches)

    def _wanted(self, path: str) -> bool:
        if path not in self._kept:
            self._kept[path] = self._keep(path)
        return self._kept[path]


class _EngineText(msgspec.Struct):
    text: str | None = None
    bytes: str | None = None

    def decode(self, errors: str = "replace") -> str:
        if self.text is not None:
            return self.text
        return base64.b64decode(self.bytes or "").decode("utf-8", errors)


class _Submatch(msgspec.Struct):
    match: _EngineText
    start: int
    end: int


class _MatchData(msgspec.Struct):
    path: _EngineText
    lines: _EngineText
    line_number: int
    absolute_offset: int
    submatches: list[_Submatch]


class _Record(msgspec.Struct):
    data: _MatchData


_MATCH = b'{"type":"match"'
_decoder = msgspec.json.Decoder(_Record)


def _match(record: bytes) -> Match | None:
    try:
        data = _decoder.decode(record).data
    except msgspec.DecodeError:
        log.warning("a record of the search engine cannot be read: %r", record[:200])
        return None
    return Match(
        _relative(data.path.decode(SURROGATES)),
        data.line_number,
        data.absolute_offset,
        shown_line(data.lines.decode()),
        tuple(Submatch(cut(one.match.decode()), one.start, one.end) for one in data.submatches[:MOST_SUBMATCHES]),
    )


class _Overlong:
    """A record that is too long to keep: only its beginning and the match position are kept."""

    def __init__(self, beginning: bytes) -> None:
        self._beginning = beginning
        self._place = _PLACE.search(beginning)
        self._window = beginning[-_PLACE_BYTES:]

    def add(self, part: bytes) -> None:
        if self._place is None:
            self._window += part
            self._place = _PLACE.search(self._window)
            self._window = self._window[-_PLACE_BYTES:]

    def match(self) -> Match | None:
        head = _HEAD.match(self._beginning)
        if head is None or self._place is None:
            return None
        path = msgspec.json.decode(head[1], type=_EngineText).decode(SURROGATES)
        text = _beginning_of(head[2] == b"bytes", self._beginning[head.end() :])
        return Match(_relative(path), int(self._place[1]), int(self._place[2]), shown_line(text), ())


# Quotes inside the engine's strings are escaped, so file content cannot imitate these patterns.
_HEAD = pattern(
    rb'\{"type":"match","data":\{"path":(\{"(?:text|bytes)":"(?:[^"\\]|\\.)*"\}),"lines":\{"(text|bytes)":"'
)
_PLACE = pattern(rb'"\},"line_number":(\d+),"absolute_offset":(\d+),')
_PLACE_BYTES = 128
_BASE64 = pattern(rb"(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2,3}={1,2})*")


def _beginning_of(is_base64: bool, encoded: bytes) -> str:
    """Decode the available part of a string whose end is missing."""
    if is_base64:
        # The line may be short: submatches can make the record long.
        quads = _BASE64.match(encoded, 0, 8 * LINE_CHARACTERS)
        assert quads is not None
        return base64.b64decode(quads[0]).decode("utf-8", "replace")
    whole = re.match(r'(?:[^"\\]|\\u[0-9A-Fa-f]{4}|\\[^u])*', encoded.decode("utf-8", "ignore"))
    assert whole is not None
    return msgspec.json.decode(f'"{whole[0]}"', type=str)


def _relative(path: str) -> str:
    return path.removeprefix("./")


def shown_line(text: str) -> str:
    """A line as it is shown, with or without its end."""
    return cut(text.removesuffix("\n").removesuffix("\r"))


def cut(text: str) -> str:
    return text if len(text) <= LINE_CHARACTERS else text[:LINE_CHARACTERS] + CUT
