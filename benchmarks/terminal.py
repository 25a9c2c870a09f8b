"""A Session of 10,000 messages in the terminal: how long opening it takes, and the memory of the terminal then.

    python benchmarks/terminal.py [messages]

The start is in terminal_start.py, typing while text arrives in terminal_typing.py."""

from __future__ import annotations

import asyncio
import fcntl
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

from holdfast.client.connect import connect
from holdfast.client.discovery import running_servers
from holdfast.schema.location import Location
from holdfast.schema.model import model_ref

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
AT_ONCE = 100
RUNS = 5
PATIENCE = 60.0
LAST = "the very last one"


async def fill(environment: dict[str, str], folder: str, messages: int) -> str:
    """A Session with so many messages, in a server that runs."""
    async with connect(environment=environment) as client:
        model = model_ref("demo/echo")
        session = await client.sessions.create(location=Location(directory=folder), model=model)
        for first in range(0, messages, AT_ONCE):
            await asyncio.gather(
                *(
                    client.sessions.synthetic(session.id, text=f"Message **{number}** of many.", resume=False)
                    for number in range(first, first + AT_ONCE)
                )
            )
            await client.sessions.prompt(session.id, text="go on" if first + AT_ONCE < messages else LAST)
            await client.sessions.wait(session.id)
        return session.id


def opened(environment: dict[str, str], folder: str, session: str) -> tuple[float, int, int]:
    """Milliseconds until the last message is drawn, and RSS and PSS in MB after that."""
    begun = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(HOLDFAST, [HOLDFAST, "--session", session], environment)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    try:
        shown = b""
        while LAST.encode() not in shown:
            ready, _, _ = select.select([master], [], [], PATIENCE)
            assert ready, shown[-2000:]
            shown += os.read(master, 65536)
        taken = (time.perf_counter() - begun) * 1000
        for _ in range(30):  # scroll through older pages
            os.write(master, b"\x1b[5~")
            if select.select([master], [], [], 0.1)[0]:
                os.read(master, 65536)
        return taken, memory(pid, "status", "VmRSS"), memory(pid, "smaps_rollup", "Pss")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)


def memory(pid: int, file: str, name: str) -> int:
    lines = Path(f"/proc/{pid}/{file}").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
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
        server = os.posix_spawn(HOLDFAST, [HOLDFAST, "serve", "--local"], environment)
        try:
            deadline = time.monotonic() + PATIENCE
            while not running_servers(environment):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            session = asyncio.run(fill(environment, home, messages))
            runs = [opened(environment, home, session) for _ in range(RUNS)]
        finally:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
    times, resident, shared = zip(*runs, strict=True)
    print(f"{messages} messages: opened in {statistics.median(times):.0f} ms (best {min(times):.0f})")
    print(f"memory: {max(resident)} MB resident, {max(shared)} MB proportional")


if __name__ == "__main__":
    main()
