"""The retained output of a terminal, addressed by an absolute cursor that counts UTF-16 code units from the first one.

Invariants
- Retained and returned text never begins or ends inside a surrogate pair.
- `start` only grows; `end - start` is at most the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RETAINED_UNITS = 2 * 1024 * 1024
UNIT = 2
"""Bytes per code unit; the text is stored as UTF-16, so that a cursor is an offset."""


class TerminalOutput:
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
        """The nearest readable position; before a surrogate pair if the cursor is inside it."""
        cursor = min(max(cursor, self.start), self.end)
        return cursor - self._splits(cursor - self.start)

    def read(self, cursor: int, limit: int | None = None) -> tuple[str, int]:
        """The text from a readable position on, at most `limit` (two or more) units, and the position after it."""
        stop = self.end if limit is None else self.place(min(cursor + limit, self.end))
        piece = self._text[(cursor - self.start) * UNIT : (stop - self.start) * UNIT]
        return piece.decode("utf-16-le"), stop

    def _splits(self, index: int) -> bool:
        """Whether the unit at this index is the second of a surrogate pair."""
        high = index * UNIT + 1
        return high < len(self._text) and 0xDC <= self._text[high] <= 0xDF


def pieces(text: str, limit: int) -> Iterator[str]:
    """Split the text into pieces of at most `limit` (two or more) units."""
    whole = TerminalOutput(2 * len(text))
    whole.append(text)
    cursor = 0
    while cursor < whole.end:
        piece, cursor = whole.read(cursor, limit)
        yield piece
