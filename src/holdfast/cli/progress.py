"""The line at the bottom of a terminal that says what a run waits for and since when.

It is drawn only where the cursor is at the beginning of a line, and erased before anything else is printed. Whoever
prints calls `erase` first."""

from __future__ import annotations

import os
import sys
import time

from holdfast.cli.output import brief
from holdfast.cli.style import Style, is_capable

FIRST_SECONDS = 1.0
"""Nothing is drawn for what takes less time."""
TICK_SECONDS = 1.0
LEAST_COLUMNS = 20


class Progress:
    def __init__(self, *, quiet: bool) -> None:
        self.on = not quiet and is_capable(sys.stderr)
        self._style = Style(sys.stderr)
        self._begun = time.monotonic()
        self._since = self._begun
        self._what = ""
        self._drawn = False

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._begun

    def waits_for(self, what: str) -> None:
        """From now on, unless it was the same before."""
        if what != self._what:
            self._what, self._since = what, time.monotonic()

    def draw(self) -> None:
        """Draw the line anew if it is time for it. The caller knows that the cursor is at the beginning of a line."""
        waited = time.monotonic() - self._since
        if not self.on or not self._what or waited < FIRST_SECONDS:
            return
        columns = max(_columns() - 1, LEAST_COLUMNS)
        text = brief(f"… {_span(waited)} {self._what}", columns)
        sys.stderr.write(f"\r\x1b[K{self._style('dim', text)}")
        sys.stderr.flush()
        self._drawn = True

    def erase(self) -> None:
        if self._drawn:
            self._drawn = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
