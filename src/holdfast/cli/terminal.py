"""Asks the person at the terminal. Lines are read on the loop, so that waiting for one can be cancelled."""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast.cli.output import printable

LINE_BYTES = 64 * 1024


def present() -> bool:
    """Whether a person can read a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class Terminal:
    """Writes to standard error: standard output is for the result of the command."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._output = sys.stderr

    def say(self, text: str = "") -> None:
        self._output.write(printable(text) + "\n")
        self._output.flush()

    async def ask(self, prompt: str) -> str | None:
        """The next line without its end; None at the end of input."""
        self._output.write(f"{prompt} ")
        self._output.flush()
        loop = asyncio.get_running_loop()
        line: asyncio.Future[bytes] = loop.create_future()
        loop.add_reader(self._input, self._read, line)
        try:
            return _text(await line)
        except asyncio.CancelledError:
            self.say()
            raise
        finally:
            loop.remove_reader(self._input)

    async def confirm(self, question: str) -> bool:
        """Ask until the answer is yes or no. The end of input means no."""
        while True:
            line = await self.ask(f"{question} [y/N]")
            if line is None or line.lower() in ("", "n", "no"):
                return False
            if line.lower() in ("y", "yes"):
                return True
            self.say("  Please answer y or n.")

    def discard_typed(self) -> None:
        """Discard input that was typed before the question appeared."""
        import termios

        termios.tcflush(self._input, termios.TCIFLUSH)

    def _read(self, line: asyncio.Future[bytes]) -> None:
        if line.done():
            return
        try:
            line.set_result(os.read(self._input, LINE_BYTES))
        except OSError:  # the terminal was closed
            line.set_result(b"")


def _text(line: bytes) -> str | None:
    return line.decode("utf-8", "replace").strip() if line else None
