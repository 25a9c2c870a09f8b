"""A scope owns registrations: closing it undoes them, newest first."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

log = logging.getLogger(__name__)


class Scope:
    """Use as `with Scope() as scope`, or close it by hand. Adding to a closed scope undoes at once."""

    def __init__(self) -> None:
        self._undo: dict[int, Callable[[], None]] = {}
        self._next = 0
        self.closed = False

    def add(self, undo: Callable[[], None]) -> Callable[[], None]:
        """Own one registration. What is returned undoes it early; twice is once."""
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
