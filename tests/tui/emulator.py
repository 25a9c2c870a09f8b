"""A terminal for tests: runs `holdfast` in a pseudo-terminal and keeps what its screen shows."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from codecs import getincrementaldecoder

from prompt_toolkit.utils import get_cwidth
from tests.cli.conftest import PATIENCE, Machine

_SEQUENCE = re.compile(r"\x1b(?:\[([?>=]?)([\d;]*)([@-~])|\][^\x07]*\x07|[()][A-Z0-9]|[=>78c])")


class Display:
    """What a terminal shows after the output of prompt_toolkit; other sequences are not needed."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.alternate = False
        self.private: set[str] = set()
        """The private modes that are on, such as 2004 for bracketed pastes."""
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._cells: list[list[str]] = []
        self._x = self._y = 0
        self._clear()
        self._main: tuple[list[list[str]], int, int] = (self._cells, 0, 0)

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self._cells)

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._clear()

    def feed(self, data: bytes) -> None:
        text = self._rest + self._decoder.decode(data)
        self._rest = ""
        place = 0
        while place < len(text):
            if text[place] == "\x1b":
                found = _SEQUENCE.match(text, place)
                if found is None:
                    if len(text) - place < 64:  # the rest has not arrived yet
                        self._rest = text[place:]
                        return
                    place += 1
                    continue
                if found[3]:
                    self._control(found[1], found[2], found[3])
                place = found.end()
            else:
                self._put(text[place])
                place += 1

    def _put(self, character: str) -> None:
        match character:
            case "\r":
                self._x = 0
            case "\n":
                self._line_feed()
            case "\b":
                self._x = max(0, self._x - 1)
            case _ if character >= " ":
                width = max(1, get_cwidth(character))
                if self._x + width > self.columns:
                    self._x = 0
                    self._line_feed()
                self._cells[self._y][self._x] = character
                for beside in range(1, width):
                    self._cells[self._y][self._x + beside] = ""
                self._x += width

    def _line_feed(self) -> None:
        if self._y == self.rows - 1:
            self._cells = [*self._cells[1:], [" "] * self.columns]
        else:
            self._y += 1

    def _control(self, kind: str, given: str, final: str) -> None:
        numbers = [int(part or 0) for part in given.split(";")] if given else []
        count = max(1, numbers[0]) if numbers else 1
        if kind == "?":
            self._private_modes(given.split(";"), on=final == "h")
        elif final == "H":
            self._y = min(count, self.rows) - 1
            self._x = min(max(1, numbers[1]) if len(numbers) > 1 else 1, self.columns) - 1
        elif final in "ABCD":
            self._y += {"A": -count, "B": count}.get(final, 0)
            self._x += {"C": count, "D": -count}.get(final, 0)
            self._y = max(0, min(self._y, self.rows - 1))
            self._x = max(0, min(self._x, self.columns - 1))
        elif final == "K":
            self._cells[self._y][self._x :] = [" "] * (self.columns - self._x)
        elif final == "J":
            if numbers and numbers[0] == 2:
                self._cells = [[" "] * self.columns for _ in range(self.rows)]
            else:
                self._cells[self._y][self._x :] = [" "] * (self.columns - self._x)
                for line in range(self._y + 1, self.rows):
                    self._cells[line] = [" "] * self.columns

    def _private_modes(self, modes: list[str], *, on: bool) -> None:
        for mode in modes:
            (self.private.add if on else self.private.discard)(mode)
        if "1049" in modes and on != self.alternate:
            self.alternate = on
            if on:
                self._main = (self._cells, self._x, self._y)
                self._clear()
            else:
                self._cells, self._x, self._y = self._main

    def _clear(self) -> None:
        self._cells = [[" "] * self.columns for _ in range(self.rows)]
        self._x = self._y = 0


class Terminal:
    """A `holdfast` process with a terminal of its own, and a person in front of it."""

    def __init__(
        self, machine: Machine, *arguments: str, columns: int = 80, rows: int = 24, **environment: str
    ) -> None:
        self._master, slave = os.openpty()
        self._set_size(columns, rows)
        self.display = Display(columns, rows)
        given = {**machine.environment, "TERM": "xterm-256color", **environment}
        self.attributes = termios.tcgetattr(slave)
        self.process: subprocess.Popen[str] = machine._process(
            *arguments, environment=given, terminal=True, stdin=slave, stdout=slave, stderr=slave
        )
        machine._started.append(self.process)
        self._slave = slave

    @property
    def text(self) -> str:
        return self.display.text

    def wait_for(self, text: str) -> None:
        """Until it is on the screen."""
        self._until(lambda: text in self.text, f"{text!r} was not shown")

    def wait_without(self, text: str) -> None:
        """Until it is not on the screen any more."""
        self._until(lambda: text not in self.text, f"{text!r} is still shown")

    def press_until(self, key: str, text: str) -> None:
        """Press a key again and again, until the text is on the screen."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.text:
            assert time.monotonic() < deadline, f"{text!r} was not shown:\n{self.text}"
            self.type(key)
            self._take(0.2)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        self.display.resize(columns, rows)
        self._set_size(columns, rows)

    def hang_up(self) -> None:
        os.close(self._slave)
        os.close(self._master)

    def leave(self) -> int:
        """Wait for the end of the process; returns its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it has not ended:\n{self.text}"
            self._take(0.05)
        while self._take(0.05):
            pass
        return int(self.process.returncode)

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as it was: its modes, the main screen, and no reports of the mouse."""
        now = termios.tcgetattr(self._slave)
        return now == self.attributes and not self.display.alternate and not self.display.private & {"1000", "2004"}

    def _until(self, met: object, problem: str) -> None:
        assert callable(met)
        deadline = time.monotonic() + PATIENCE
        while not met():
            assert time.monotonic() < deadline, f"{problem}:\n{self.text}"
            if not self._take(0.5) and self.process.poll() is not None:
                while self._take(0.05):
                    pass
                assert met(), f"{problem}, and the process ended with {self.process.returncode}:\n{self.text}"

    def _take(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.display.feed(data)
        return bool(data)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
