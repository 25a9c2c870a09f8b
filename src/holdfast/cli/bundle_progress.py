"""One line on standard error that tells how far an export, an import or a removal is."""

from __future__ import annotations

import sys
import time

SHOWN_SECONDS = 0.2
LOGGED_SECONDS = 10.0
"""Between two lines where there is no terminal."""


class BundleProgress:
    """Not shown for work that is done at once. On a terminal one line changes; elsewhere a new one comes at times."""

    def __init__(self, *, shown: bool = True, things: str = " sessions") -> None:
        self._things = things
        self._shown = shown
        self._terminal = sys.stderr.isatty()
        self._pause = SHOWN_SECONDS if self._terminal else LOGGED_SECONDS
        self._next = time.monotonic() + self._pause
        self._width = 0

    def show(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + self._pause
        self._write(f"{what} {done:,} of {total:,}{self._things}")

    def clear(self) -> None:
        if self._width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()
            self._width = 0

    def _write(self, line: str) -> None:
        if not self._terminal:
            sys.stderr.write(f"{line}\n")
        else:
            sys.stderr.write("\r" + line.ljust(self._width))
            self._width = len(line)
        sys.stderr.flush()
