"""Limits how fast an answer is read, so that a provider that sends very fast does not monopolise the event loop.

Invariants
- A stream that is alone, or that sends less than BURST at once and RATE on average, never waits.
- Beside other work a stream is read at RATE; the flow control of the connection slows the provider down."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BURST = 512 * 1024
RATE = 1024 * 1024
"""Bytes per second: about 20 times what the fastest models send, framing included."""


class Pace:
    """Pace of one answer. `contended` says whether other work is waiting for the event loop."""

    def __init__(self, contended: Callable[[], bool], now: Callable[[], float] = time.monotonic) -> None:
        self._contended = contended
        self._now = now
        self._room = BURST
        self._filled = now()

    def wait_after(self, size: int) -> float:
        """Seconds to wait before the next read, after `size` bytes were handled."""
        self._room -= size
        if self._room >= 0:
            return 0.0
        now = self._now()
        self._room = min(BURST, self._room + size + int((now - self._filled) * RATE)) - size
        self._filled = now
        if self._room >= 0:
            return 0.0
        if not self._contended():
            self._room = 0
            return 0.0
        return -self._room / RATE
