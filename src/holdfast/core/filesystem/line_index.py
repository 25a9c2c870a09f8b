"""Finds a sequence of lines in a text, exactly or after normalising each line, in linear time."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class LineIndex:
    """The lines of one text, normalised once per normalising function."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._normalized: dict[Callable[[str], str], tuple[str, list[int]]] = {}

    def find(self, needle: Sequence[str], normalize: Callable[[str], str], start: int = 0) -> int | None:
        """The first line from `start` on where all lines of the needle follow each other."""
        return next(self.find_all(needle, normalize, start), None)

    def find_all(self, needle: Sequence[str], normalize: Callable[[str], str], start: int = 0) -> Iterator[int]:
        """All such lines, including overlapping matches."""
        if not needle or start + len(needle) > len(self._lines):
            return
        text, offsets = self._text(normalize)
        wanted = "\n" + "\n".join(map(normalize, needle)) + "\n"
        position = text.find(wanted, offsets[start])
        while position >= 0:
            yield bisect_left(offsets, position)
            position = text.find(wanted, position + 1)

    def _text(self, normalize: Callable[[str], str]) -> tuple[str, list[int]]:
        """The normalised lines, each between two line feeds, and the offset of the feed before each line."""
        if normalize not in self._normalized:
            lines = [normalize(line) for line in self._lines]
            offsets = [0]
            for line in lines:
                offsets.append(offsets[-1] + len(line) + 1)
            self._normalized[normalize] = ("\n" + "\n".join(lines) + "\n", offsets)
        return self._normalized[normalize]
