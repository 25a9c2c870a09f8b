"""Two nodes that admit prompts to the same Sessions. Each is a process: `python benchmarks/postgres_nodes.py` with the
address, the callers, the seconds and the Sessions as arguments. It admits when a line comes, and prints how many."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.embedded.serve import fast_loop
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt

SECONDS = 3.0
MODEL = ModelRef(id="echo", provider_id="demo")


def _runtime(address: str, folder: Path) -> Runtime:
    return Runtime(
        paths=Paths(folder / "data"),
        directory=folder,
        environment={"HOME": str(folder)},
        options=HostOptions(titles=False),
        database=address,
    )


async def new_sessions(address: str, count: int) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        async with _runtime(address, Path(name).resolve()) as runtime:
            project = await runtime.project(runtime.location)
            made = [
                await runtime.sessions.create(location=runtime.location, project=project, model=MODEL)
                for _ in range(count)
            ]
    return [session.id for session in made]


def admitted_per_second(address: str, shares: list[tuple[int, list[str]]]) -> list[float]:
    """How many prompts each node admits, given its number of callers and its Sessions. All begin together."""
    nodes = [
        subprocess.Popen(
            [sys.executable, __file__, address, str(callers), str(SECONDS), *sessions],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for callers, sessions in shares
    ]
    for node in nodes:
        assert node.stdout is not None
        assert node.stdout.readline() == "ready\n"
    answers = []
    for node in nodes:
        assert node.stdin is not None
        node.stdin.write("go\n")
        node.stdin.flush()
    for node in nodes:
        answer, _ = node.communicate()
        answers.append(int(answer) / SECONDS)
    return answers


async def _admit(address: str, callers: int, seconds: float, sessions: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        async with _runtime(address, Path(name).resolve()) as runtime:
            turns = itertools.cycle(sessions)
            until, admitted = 0.0, 0

            async def caller() -> None:
                nonlocal admitted
                while time.perf_counter() < until:
                    await runtime.sessions.prompt(next(turns), Prompt(text="Look twice, please. " * 10), resume=False)
                    admitted += 1

            for session_id in sessions:
                await runtime.sessions.prompt(session_id, Prompt(text="first"), resume=False)
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            until = time.perf_counter() + seconds
            await asyncio.gather(*(caller() for _ in range(callers)))
    print(admitted, flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(_admit(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
