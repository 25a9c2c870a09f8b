"""What stored Sessions cost the next one: `python benchmarks/stored_sessions.py [SESSIONS [EVENTS]]`.

A database is filled with copies of a Session (20,000 with a million events, unless told otherwise). A turn, a page of
the list, searches and the start of a runtime are measured on it and on an empty one, in turn, as ratios of one run. A
turn is measured as the CPU time of the process, which other programs on the machine disturb less than the clock."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from tests.stored_sessions import copy_sessions  # noqa: E402

from holdfast import Holdfast  # noqa: E402
from holdfast.embedded.serve import fast_loop  # noqa: E402
from holdfast.llm.offline import Call, ScriptedTransport, Turn  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SESSIONS, EVENTS = 20_000, 1_000_000
ROUNDS, TURNS, READS, STARTS = 5, 20, 10, 3
READ, DONE = Turn(calls=(Call(tool="read", input={"filePath": "hello.txt"}),)), Turn(text="done")
MOST_TURN, MOST_MILLIS, MOST_START = 1.1, 20.0, 1.2


class Machine:
    """A project, and a data folder with any number of Sessions."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._project = folder / "project"
        self._project.mkdir(parents=True)
        (self._project / "hello.txt").write_text("hello world\n", encoding="utf-8")
        config = folder / "config" / "opencode"
        config.mkdir(parents=True)
        (config / "opencode.json").write_text('{"model": "demo/echo", "holdfast": {"titles": false}}', encoding="utf-8")
        self._environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}

    @property
    def other_directory(self) -> Path:
        other = self._project.with_name("other")
        other.mkdir(exist_ok=True)
        return other

    def host(self) -> Holdfast:
        model = ScriptedTransport([READ, DONE] * 1_000)
        return Holdfast(self._project, data=self.data, environment=self._environment, transport=model)

    async def fill(self, sessions: int, events: int) -> None:
        """Store copies of a Session that has as many events as each is to have."""
        async with self.host() as hf:
            session = await hf.sessions.create()
            while True:
                await turn(hf, session.id)
                history = await hf.sessions.log(session.id, limit=1)
                if history.items[0].seq + 1 >= events / sessions:
                    break
        began = time.monotonic()
        copied = copy_sessions(self.data / "holdfast.db", [session.id], sessions)
        size = (self.data / "holdfast.db").stat().st_size // 10**6
        print(f"{sessions:,} Sessions, {copied:,} events, {size:,} MB, made in {time.monotonic() - began:.0f} s")


async def turn(hf: Holdfast, session_id: str) -> None:
    """A prompt, a call of a tool, and an answer."""
    await hf.sessions.prompt(session_id, text="what does hello.txt say?")
    await hf.sessions.wait(session_id)


async def turn_cpu(hf: Holdfast) -> float:
    session = await hf.sessions.create()
    await turn(hf, session.id)
    began = time.process_time()
    for _ in range(TURNS):
        await turn(hf, session.id)
    return (time.process_time() - began) / TURNS * 1000


async def start(machine: Machine) -> float:
    """Until the first Session of a process exists."""
    taken = []
    for _ in range(STARTS):
        began = time.process_time()
        async with machine.host() as hf:
            await hf.sessions.create()
            taken.append((time.process_time() - began) * 1000)
    return min(taken)


def reads(hf: Holdfast, machine: Machine) -> dict[str, Callable[[], Awaitable[object]]]:
    other = str(machine.other_directory)
    return {
        "list, a page": lambda: hf.sessions.list(limit=50),
        "list, a directory without Sessions": lambda: hf.sessions.list(limit=50, directory=other),
        "list, a search without a match": lambda: hf.sessions.list(limit=50, search="no such title"),
        "overview, a page": lambda: hf.sessions.overview(limit=50),
        "overview, a search without a match": lambda: hf.sessions.overview(limit=50, search="no such title"),
        "overview, a directory without Sessions": lambda: hf.sessions.overview(limit=50, directory=other),
        "open work": lambda: hf.sessions.overview(open=True),
        "usage of the last hour": lambda: hf.system.usage(by="model", since=int(time.time() - 3600) * 1000),
        "find by title": lambda: hf.sessions.find(name="no such title"),
    }


async def clocked(read: Callable[[], Awaitable[object]]) -> float:
    """The fastest of some: what it costs without the other programs of the machine."""
    taken = []
    for _ in range(READS):
        began = time.perf_counter()
        await read()
        taken.append((time.perf_counter() - began) * 1000)
    return min(taken)


async def main(sessions: int, events: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        empty, full = Machine(Path(folder, "empty")), Machine(Path(folder, "full"))
        await full.fill(sessions, events)
        turns: list[tuple[float, float]] = []
        starts: list[tuple[float, float]] = []
        await start(empty)  # imports what the first process imports
        for _ in range(ROUNDS):
            starts.append((await start(empty), await start(full)))
            async with empty.host() as one, full.host() as other:
                await turn_cpu(one)
                turns.append((await turn_cpu(one), await turn_cpu(other)))
        kept = [
            told("CPU of a turn", turns, MOST_TURN),
            told("CPU of a start", starts, MOST_START),
        ]
        async with full.host() as hf:
            for name, read in reads(hf, full).items():
                millis = await clocked(read)
                kept.append(millis <= MOST_MILLIS)
                print(f"{name:40} {millis:8.2f} ms   at most {MOST_MILLIS:.0f} ms")
            everything = await clocked(lambda: hf.system.usage(by="day,model", since=0))
            print(f"{'usage of everything':40} {everything:8.2f} ms")
    return all(kept)


def told(name: str, pairs: list[tuple[float, float]], most: float) -> bool:
    """Print the medians and their ratio; whether that is within the limit."""
    empty, full = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"{name:40} {empty:8.2f} ms empty, {full:8.2f} ms full: {full / empty:.2f} times, at most {most}")
    return bool(full / empty <= most)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    count = numbers[0] if numbers else SESSIONS
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        within = runner.run(main(count, numbers[1] if len(numbers) > 1 else count * EVENTS // SESSIONS))
    sys.exit(0 if within else 1)
