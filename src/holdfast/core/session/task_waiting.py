"""Calls of this process that wait for a child."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter

    from holdfast.core.event.signal import Flag


class Waiter:
    """A call that waits for its child, or for its turn."""

    def __init__(self) -> None:
        self.flag: Flag | None = None
        """Wakes the call while it waits for the child."""
        self.moved = False

    def move(self) -> None:
        self.moved = True
        if self.flag is not None:
            self.flag.set()


class Place:
    """One of the tasks of a tree that calls of this process wait for."""

    def __init__(self, taken: Counter[str], root_id: str) -> None:
        self._taken = taken
        self._root_id = root_id
        self._held = False

    def take(self, most: int | None = None) -> bool:
        """Whether there are fewer than `most`, this one left out."""
        if most is not None and self._taken[self._root_id] >= most:
            return False
        self._held = True
        self._taken[self._root_id] += 1
        return True

    def free(self) -> None:
        if self._held:
            self._held = False
            self._taken[self._root_id] -= 1
            if not self._taken[self._root_id]:
                del self._taken[self._root_id]
