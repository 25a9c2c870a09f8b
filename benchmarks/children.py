"""Turns of two hundred children of twenty parents, against turns of plain Sessions. `make bench`.

Children and plain Sessions do the same: they read a file in all turns but the last. The parents' own turns are measured
with as many calls that read files, and left out: what remains are the turns of the children, with all that creating
them, handing over their tasks and waiting for them costs."""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.llm.offline import Call, Turn, respond
from holdfast.schema.codec import decode_any
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt

if TYPE_CHECKING:
    from holdfast.llm.route.transport import HttpRequest, HttpResponse

PARENTS = 20
CHILDREN = 10
TURNS = 5
ROUNDS = 6
BOUND = 1.3
MODEL = ModelRef(id="echo", provider_id="demo")
READ = Call(tool="read", input={"path": "0.txt"})


class Model:
    """Answers by the first word of the first prompt."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        body = decode_any(b"".join(request.body))
        messages = [message for message in body["messages"] if message["role"] != "system"]
        given = messages[0]["content"]
        text = given if isinstance(given, str) else given[0]["text"]
        answers = sum(message["role"] == "assistant" for message in messages)
        return respond(self._turn(text.split()[0], answers), MODEL.id)

    async def close(self) -> None:
        pass

    def _turn(self, word: str, answers: int) -> Turn:
        if word == "delegate" and not answers:
            task = {"agent": "general", "description": "look", "prompt": "look"}
            return Turn(calls=tuple(Call(tool="subagent", input=task) for _ in range(CHILDREN)))
        if word == "parent" and not answers:
            return Turn(calls=tuple(Call(tool="read", input={"path": f"{i}.txt"}) for i in range(CHILDREN)))
        if word == "look" and answers < TURNS - 1:
            return Turn(text="look", calls=(READ,))
        return Turn(text="done")


class Bench:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def run(self, sessions: int, prompt: str) -> float:
        """Processor time of so many Sessions at once."""
        runtime = self._runtime
        gc.collect()
        begun = time.process_time()
        project = await runtime.project(runtime.location)
        made = [
            await runtime.sessions.create(location=runtime.location, project=project, model=MODEL)
            for _ in range(sessions)
        ]
        await asyncio.gather(*(runtime.sessions.prompt(session.id, Prompt(text=prompt)) for session in made))
        await asyncio.gather(*(runtime.sessions.wait(session.id) for session in made))
        return time.process_time() - begun


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        project, config = Path(folder) / "project", Path(folder) / ".config" / "opencode"
        project.mkdir()
        config.mkdir(parents=True)
        for number in range(CHILDREN):
            (project / f"{number}.txt").write_text("text\n")
        subagents = {"parallel": CHILDREN, "tree": CHILDREN * 2}
        settings = {"snapshots": False, "holdfast": {"titles": False, "subagents": subagents}}
        (config / "opencode.json").write_text(json.dumps(settings))
        async with Runtime(
            paths=Paths(Path(folder) / "data"),
            directory=project,
            environment={"HOME": folder},
            transport=Model(),
            options=HostOptions(titles=False),
        ) as runtime:
            bench = Bench(runtime)
            for prompt in ("look", "parent", "delegate"):
                await bench.run(2, prompt)
            rounds = [
                (
                    await bench.run(PARENTS * CHILDREN, "look"),
                    await bench.run(PARENTS, "parent"),
                    await bench.run(PARENTS, "delegate"),
                )
                for _ in range(ROUNDS)
            ]
    plain, parents, trees = (statistics.median(column) for column in zip(*rounds, strict=True))
    turns, ratio = PARENTS * CHILDREN * TURNS, (trees - parents) / plain
    print(f"a turn of a plain Session: {plain / turns * 1000:.2f} ms of processor time")
    print(f"a turn of a child: {(trees - parents) / turns * 1000:.2f} ms, {ratio:.2f} times that (at most {BOUND:g})")
    return int(ratio > BOUND)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
