"""A person at a terminal. Lines are read on the loop, so waiting for one can be given up at any time."""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast.cli.output import printable

LINE_BYTES = 64 * 1024


def present() -> bool:
    """Whether somebody can read what is asked, and answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class Terminal:
    """Asks on standard error, so that standard output stays the answer's."""

    def __init__(self) -> None:
        self._given = sys.stdin.fileno()
        self._shown = sys.stderr

    def say(self, text: str = "") -> None:
        self._shown.write(printable(text) + "\n")
        self._shown.flush()

    async def ask(self, prompt: str) -> str | None:
        """One line without its end; None when the person ends the input instead."""
        self._shown.write(f"{prompt} ")
        self._shown.flush()
        loop = asyncio.get_running_loop()
        line: asyncio.Future[bytes] = loop.create_future()
        loop.add_reader(self._given, self._read, line)
        try:
            return _text(await line)
        except asyncio.CancelledError:
            self.say()
            raise
        finally:
            loop.remove_reader(self._given)

    def forget_typed(self) -> None:
        """What was typed before the question was there is no answer to it."""
        import termios

        termios.tcflush(self._given, termios.TCIFLUSH)

    def _read(self, line: asyncio.Future[bytes]) -> None:
        if line.done():
            return
        try:
            line.set_result(os.read(self._given, LINE_BYTES))
        except OSError:  # the terminal is gone, and with it the person
            line.set_result(b"")


def _text(line: bytes) -> str | None:
    return line.decode("utf-8", "replace").strip() if line else None
