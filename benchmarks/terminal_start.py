"""How long `holdfast` takes until its composer is drawn, in a pseudo-terminal, compared with `import prompt_toolkit`.

    python benchmarks/terminal_start.py [runs]

Prints medians in milliseconds, and the memory of the terminal once it has opened its Session."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

RUNS = 20
PATIENCE = 30.0
DRAWN = "Type a prompt"
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))


def first_frame(environment: dict[str, str], folder: str, *, settle: bool = False) -> tuple[float, int]:
    """Milliseconds until the composer is drawn, and with `settle` the resident memory in MB some time later."""
    begun = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(HOLDFAST, [HOLDFAST], environment)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    try:
        shown = b""
        while DRAWN.encode() not in shown:
            ready, _, _ = select.select([master], [], [], PATIENCE)
            assert ready, shown
            shown += os.read(master, 65536)
        taken = (time.perf_counter() - begun) * 1000
        if settle:
            deadline = time.monotonic() + 4
            while time.monotonic() < deadline:
                if select.select([master], [], [], 0.2)[0]:
                    os.read(master, 65536)
        return taken, _memory(pid)
    finally:
        os.kill(pid, signal.SIGTERM)
        while True:
            try:
                if not os.read(master, 65536):
                    break
            except OSError:
                break
        os.waitpid(pid, 0)
        os.close(master)


def _memory(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
    return 0


def imported() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import prompt_toolkit"], check=True)
    return (time.perf_counter() - begun) * 1000


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as home:
        state = Path(home, "state", "holdfast")
        state.mkdir(parents=True, mode=0o700)
        (state / "choices.json").touch()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "XDG_STATE_HOME": str(state.parent),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        _, memory = first_frame(environment, home, settle=True)
        base = statistics.median(imported() for _ in range(runs))
        frame = statistics.median(first_frame(environment, home)[0] for _ in range(runs))
    print(f"import prompt_toolkit  {base:6.0f} ms")
    print(f"first frame            {frame:6.0f} ms  ({frame / base:.2f} times)")
    print(f"memory                 {memory:6} MB")


if __name__ == "__main__":
    main()
