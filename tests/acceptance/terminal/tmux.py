"""A pane of tmux with `holdfast` in it: what a person sees, and the keys that they press.

`HOLDFAST_RECORDINGS=folder` keeps everything that was written to the panes, one file each; `cat` plays it."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PATIENCE = 30.0
PAUSE = 0.03
OPTIONS = """\
set-option -g remain-on-exit on
set-option -g status off
set-option -s escape-time 0
set-option -s exit-empty off
set-option -g history-limit 2000
set-option -g default-terminal tmux-256color
"""
_numbers = itertools.count(1)


class Tmux:
    """A tmux server of its own, which nobody else is connected to."""

    def __init__(self, folder: Path, program: str = "tmux") -> None:
        (folder / "tmux.conf").write_text(OPTIONS, encoding="ascii")
        self._command = (program, "-f", str(folder / "tmux.conf"), "-S", str(folder / "tmux"))
        self.folder = folder
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "TERM": "xterm"}

    def __call__(self, *arguments: str, given: bytes | None = None) -> str:
        ran = subprocess.run(
            [*self._command, *arguments], input=given, env=self._environment, capture_output=True, timeout=PATIENCE
        )
        assert ran.returncode == 0, f"tmux {arguments[0]}: {ran.stderr.decode()}"
        return ran.stdout.decode(errors="replace")

    def stop(self) -> None:
        subprocess.run([*self._command, "kill-server"], env=self._environment, capture_output=True, timeout=PATIENCE)


class Pane:
    """One terminal of `columns` by `rows` with a program in it. It stays when the program has ended."""

    def __init__(
        self,
        tmux: Tmux,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        self._tmux = tmux
        self._name = f"p{next(_numbers)}"
        self.columns, self.rows = columns, rows
        # `env -i`: tmux would add variables of its own.
        variables = [f"{name}={value}" for name, value in environment.items()]
        program = shlex.join(["env", "-i", *variables, *command])
        # Not from tmux: version 3.3 misses the end of a process now and then.
        self._status = tmux.folder / f"{self._name}.status"
        program += f"; echo $? > {shlex.quote(str(self._status))}"
        size = ("-x", str(columns), "-y", str(rows))
        tmux("new-session", "-d", "-s", self._name, *size, "-c", str(folder), program)
        if recordings := os.environ.get("HOLDFAST_RECORDINGS"):
            kept = shlex.quote(str(Path(recordings, f"{self._name}-{columns}x{rows}.log")))
            tmux("pipe-pane", "-t", self._name, f"cat > {kept}")

    # -- what is seen -------------------------------------------------------------------------------------------

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", self._name)

    @property
    def coloured(self) -> str:
        """With the sequences of its colours, and with spaces at the ends of lines."""
        return self._tmux("capture-pane", "-e", "-N", "-p", "-t", self._name)

    @property
    def title(self) -> str:
        """Of the window, which programs can change."""
        return self._ask("pane_title")

    @property
    def is_full_screen(self) -> bool:
        return self._ask("alternate_on") == "1"

    def wait_for(self, *texts: str) -> str:
        """Until all of them are on the screen, which is returned. Line breaks of a narrow terminal do not matter."""
        return self.wait_until(
            lambda screen: all(text in screen or _joined(text) in _joined(screen) for text in texts),
            f"{' and '.join(map(repr, texts))} did not appear",
        )

    def wait_without(self, text: str) -> str:
        return self.wait_until(lambda screen: _joined(text) not in _joined(screen), f"{text!r} is still there")

    def wait_until(self, met: Callable[[str], bool], problem: str) -> str:
        deadline = time.monotonic() + PATIENCE
        while not met(screen := self.screen):
            assert time.monotonic() < deadline, f"{problem}:\n{screen}"
            time.sleep(PAUSE)
        return screen

    def wait_for_exit(self) -> int:
        """The exit code of the program, when it has ended by itself."""
        deadline = time.monotonic() + PATIENCE
        while not (self._status.exists() and (status := self._status.read_text(encoding="ascii"))):
            assert time.monotonic() < deadline, f"it has not ended:\n{self.screen}"
            time.sleep(PAUSE)
        return int(status)

    # -- what is done -------------------------------------------------------------------------------------------

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-t", self._name, "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Keys by the names that tmux has for them, such as `Enter` and `C-c`."""
        self._tmux("send-keys", "-t", self._name, *keys)

    def send(self, text: str) -> None:
        """A line, and Enter once it is on the screen."""
        self.type(text)
        self.wait_for(text[-20:])
        self.press("Enter")

    def paste(self, text: bytes) -> None:
        """From the clipboard: as one piece, if the program has asked for that."""
        self._tmux("load-buffer", "-b", self._name, "-", given=text)
        self._tmux("paste-buffer", "-p", "-r", "-d", "-b", self._name, "-t", self._name)

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._tmux("resize-window", "-t", self._name, "-x", str(columns), "-y", str(rows))

    def close(self) -> None:
        """As a person closes the window."""
        self._tmux("kill-session", "-t", self._name)

    def _ask(self, variable: str) -> str:
        return self._tmux("display-message", "-p", "-t", self._name, f"#{{{variable}}}").rstrip("\n")


def _joined(text: str) -> str:
    """Without what wrapping adds and removes."""
    return "".join(text.split()).replace("▌", "")
