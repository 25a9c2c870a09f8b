"""How long a typed key takes to the screen while 500 deltas a second arrive.

    python benchmarks/terminal_typing.py [seconds]

A scripted model writes a word every 2 ms; a key is typed every 50 ms in a pseudo-terminal, and the time until output
with it arrives is measured. Prints the median and the 95th percentile in milliseconds."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
PATIENCE = 30.0
WORDS = 20_000
LETTERS = "QVWXYZ"
"""None of them is part of a sequence for terminals, or of what the model writes."""


class Screen:
    def __init__(self, environment: dict[str, str], folder: str) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(HOLDFAST, [HOLDFAST, "--new", "-m", "demo/scripted"], environment)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.unseen = b""

    def until(self, shown: bytes) -> float:
        """When it was shown."""
        deadline = time.monotonic() + PATIENCE
        while shown not in self.unseen:
            ready, _, _ = select.select([self.master], [], [], deadline - time.monotonic())
            assert ready, self.unseen[-2000:]
            self.unseen += os.read(self.master, 65536)
        now = time.perf_counter()
        self.unseen = b""
        return now

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def drain(self, seconds: float) -> int:
        """Read what comes in this time; returns how much."""
        deadline = time.monotonic() + seconds
        size = 0
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                size += len(os.read(self.master, 65536))
        self.unseen = b""
        return size


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    with tempfile.TemporaryDirectory() as home:
        state = Path(home, "state", "holdfast")
        state.mkdir(parents=True, mode=0o700)
        (state / "choices.json").touch()
        script = Path(home, "script.json")
        script.write_text(json.dumps([{"text": " ".join(["word"] * WORDS), "pace": 0.002}]), encoding="utf-8")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "XDG_STATE_HOME": str(state.parent),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "HOLDFAST_SCRIPT": str(script),
        }
        screen = Screen(environment, home)
        try:
            screen.until(b"It is created")
            screen.type("go\r")
            screen.until(b"word")
            screen.drain(2)
            times = []
            end = time.monotonic() + seconds
            number = 0
            while time.monotonic() < end:
                letter = LETTERS[number % len(LETTERS)]
                number += 1
                begun = time.perf_counter()
                screen.type(letter)
                times.append((screen.until(letter.encode()) - begun) * 1000)
                screen.drain(0.05)
        finally:
            os.kill(screen.pid, signal.SIGKILL)
            os.waitpid(screen.pid, 0)
            for file in (state / "servers").glob("*.json"):
                os.kill(json.loads(file.read_bytes())["pid"], signal.SIGKILL)
    times.sort()
    slow = times[len(times) * 95 // 100]
    print(f"{len(times)} keys: median {statistics.median(times):.1f} ms, 95th percentile {slow:.1f} ms")


if __name__ == "__main__":
    main()
