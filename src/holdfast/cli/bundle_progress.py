"""One line on standard error that tells how far an export, an import or a removal is."""

from __future__ import annotations

import sys
import time

SHOWN_SECONDS = 0.2


class BundleProgress:
    """Shown on a terminal only, and not for work that is done at once."""

    def __init__(self, *, shown: bool = True, things: str = " sessions") -> None:
        self._things = things
        self._shown = shown and sys.stderr.isatty()
        self._next = time.monotonic() + SHOWN_SECONDS
        self._width = 0

    def show(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + SHOWN_SECONDS
        self._write(f"{what} {done:,} of {total:,}{self._things}")

    def clear(self) -> None:
        if self._width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()
            self._width = 0

    def _write(self, line: str) -> None:
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)
