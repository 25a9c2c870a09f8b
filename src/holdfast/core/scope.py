"""A scope owns registrations and undoes them, newest first, when it closes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

log = logging.getLogger(__name__)


class Scope:
    """Use as a context manager, or call `close`. A registration added after closing is undone at once."""

    def __init__(self) -> None:
        self._undo: dict[int, Callable[[], None]] = {}
        self._next = 0
        self.closed = False

    def add(self, undo: Callable[[], None]) -> Callable[[], None]:
        """Own one registration. Returns a function that undoes it early; calling it again has no effect."""
        key, self._next = self._next, self._next + 1
        self._undo[key] = undo

        def dispose() -> None:
            if (mine := self._undo.pop(key, None)) is not None:
                mine()

        if self.closed:
            dispose()
        return dispose

    def close(self) -> None:
        self.closed = True
        while self._undo:
            _, undo = self._undo.popitem()
            try:
                undo()
            except Exception:
                log.exception("undoing a registration")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
