"""The last output of a terminal, addressed by an absolute cursor which counts UTF-16 code units from its first one.

Invariants
- What is kept, and what is read, begins and ends between characters, never inside a surrogate pair.
- `start` only grows; `end - start` is at most the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RETAINED_UNITS = 2 * 1024 * 1024
UNIT = 2
"""Bytes of one code unit; the text is held as UTF-16, so that a cursor is an offset."""


class Output:
    def __init__(self, limit: int = RETAINED_UNITS) -> None:
        self._limit = limit
        self._text = bytearray()
        self.start = 0

    @property
    def end(self) -> int:
        return self.start + len(self._text) // UNIT

    def append(self, text: str) -> None:
        self._text += text.encode("utf-16-le")
        excess = self.end - self.start - self._limit
        if excess > 0:
            excess += self._splits(excess)
            del self._text[: excess * UNIT]
            self.start += excess

    def place(self, cursor: int) -> int:
        """The nearest position that can be read from; inside a pair, the one before it."""
        cursor = min(max(cursor, self.start), self.end)
        return cursor - self._splits(cursor - self.start)

    def read(self, cursor: int, limit: int | None = None) -> tuple[str, int]:
        """What follows a place, at most `limit` (two or more) units of it, and the place after that."""
        stop = self.end if limit is None else self.place(min(cursor + limit, self.end))
        piece = self._text[(cursor - self.start) * UNIT : (stop - self.start) * UNIT]
        return piece.decode("utf-16-le"), stop

    def _splits(self, index: int) -> bool:
        """Whether the unit there is the second of a pair."""
        high = index * UNIT + 1
        return high < len(self._text) and 0xDC <= self._text[high] <= 0xDF


def pieces(text: str, limit: int) -> Iterator[str]:
    """The text in pieces of at most `limit` (two or more) units."""
    whole = Output(2 * len(text))
    whole.append(text)
    cursor = 0
    while cursor < whole.end:
        piece, cursor = whole.read(cursor, limit)
        yield piece
