"""Finding a run of lines among lines, exactly or under a fold, in linear time."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class LineIndex:
    """The lines of one text, folded once per fold that is asked for."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._folded: dict[Callable[[str], str], tuple[str, list[int]]] = {}

    def find(self, needle: Sequence[str], fold: Callable[[str], str], start: int = 0) -> int | None:
        """The first line at or behind `start` where the needle's lines follow each other."""
        return next(self.find_all(needle, fold, start), None)

    def find_all(self, needle: Sequence[str], fold: Callable[[str], str], start: int = 0) -> Iterator[int]:
        """Every such line, overlapping runs included."""
        if not needle or start + len(needle) > len(self._lines):
            return
        text, offsets = self._under(fold)
        wanted = "\n" + "\n".join(map(fold, needle)) + "\n"
        position = text.find(wanted, offsets[start])
        while position >= 0:
            yield bisect_left(offsets, position)
            position = text.find(wanted, position + 1)

    def _under(self, fold: Callable[[str], str]) -> tuple[str, list[int]]:
        """The folded lines, each between two line feeds, and where the first of these stands."""
        if fold not in self._folded:
            folded = [fold(line) for line in self._lines]
            offsets = [0]
            for line in folded:
                offsets.append(offsets[-1] + len(line) + 1)
            self._folded[fold] = ("\n" + "\n".join(folded) + "\n", offsets)
        return self._folded[fold]
