"""How long something works, without the time in which it waits for a person or for another Session."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.clock import Clock


class WorkTime:
    """Begins to count when it is made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = clock.now()
        self._waits = 0
        """How many waits go on at this moment."""
        self._waiting_since = 0
        self._waited = 0

    @property
    def worked(self) -> int:
        """Milliseconds until now."""
        now = self._clock.now()
        waited = self._waited + (now - self._waiting_since if self._waits else 0)
        return max(0, now - self._begun - waited)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        if not self._waits:
            self._waiting_since = self._clock.now()
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._waited += self._clock.now() - self._waiting_since


@contextmanager
def measuring(clock: Clock) -> Iterator[WorkTime]:
    """Inside, and in tasks that are made inside, `not_working` tells of waits."""
    measured = WorkTime(clock)
    token = _measured.set(measured)
    try:
        yield measured
    finally:
        _measured.reset(token)


@contextmanager
def not_working() -> Iterator[None]:
    """What is awaited inside is no work of the call that awaits it."""
    measured = _measured.get()
    if measured is None:
        yield
        return
    with measured.waiting():
        yield


_measured: ContextVar[WorkTime | None] = ContextVar("measured", default=None)
