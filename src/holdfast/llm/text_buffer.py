"""Collects text that arrives in many small pieces."""

from __future__ import annotations

PIECES = 4096


class TextBuffer:
    """Joins pieces in groups, so that memory is proportional to the length of the text: a string of two characters
    takes 51 bytes."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._groups: list[str] = []
        self._taken = 0

    def add(self, text: str) -> None:
        self._pieces.append(text)
        if len(self._pieces) >= PIECES:
            self._join()

    def take_new(self) -> str:
        """The text that was added since the last call."""
        new, self._taken = self.after(self._taken)
        return new

    def after(self, mark: int) -> tuple[str, int]:
        """The text that was added after this returned a mark, and the next mark. The first mark is 0."""
        self._join()
        return "".join(self._groups[mark:]), len(self._groups)

    def taken(self) -> str:
        """All that `take_new` has given."""
        return "".join(self._groups[: self._taken])

    def whole(self) -> str:
        self._join()
        return "".join(self._groups)

    def _join(self) -> None:
        if self._pieces:
            self._groups.append("".join(self._pieces))
            self._pieces.clear()
