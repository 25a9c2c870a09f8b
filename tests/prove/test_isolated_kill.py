"""Isolated subagents whose process is killed with SIGKILL at any moment: while the copy is made, while the child works,
while its changes are applied."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.outside.conftest import model, world
from tests.outside.isolation import copy_of, isolated, shell, states
from tests.outside.scripted_provider import Request, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask

from holdfast import Holdfast, Session
from holdfast.schema.session_message import ToolCompleted

__all__ = ["model", "world"]
pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(120)]

FILES = 40
SEEDS = 20
LONGEST_SECONDS = 1.2
HOST = """
import asyncio, sys
from holdfast import Holdfast, PromptInput

async def main(project, data, session):
    async with Holdfast(project, data=data, preset="allow") as hf:
        await hf.sessions.prompt(session, prompt=PromptInput(text="root"))
        print("begun", flush=True)
        await hf.sessions.wait(session)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def ends() -> Iterator[Counter[str]]:
    """How the processes ended. One seed alone may come too late, all of them may not."""
    ends: Counter[str] = Counter()
    yield ends
    if ends.total() == SEEDS:
        assert ends["killed"] > SEEDS // 2, ends


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_killed_process_loses_no_change_and_leaves_nothing_behind(
    world: World, seed: int, ends: Counter[str]
) -> None:
    """SES-412, SES-413, TOL-475: each file is as it was or as the child left it, none is changed twice, and what was
    begun can be finished; in the end the repository lists the copies that are there and no other."""
    for number in range(FILES):
        world.write(f"files/{number}", f"{number}\n")
    world.repository()
    world.write("files/1", "uncommitted\n")
    cast = Cast(
        root=[delegating(isolated("work"))],
        work=[shell(f"for i in $(seq 0 {FILES - 1}); do echo new >> files/$i; done")],
    )

    def play(request: Request) -> Turn:
        turn = cast(request)
        if turn.text != "root done" or not request.results or "apply_subagent" not in request.results[-1]:
            return turn
        return calling("apply_subagent", sessionID=request.results[-1].partition('sessionID="')[2].partition('"')[0])

    world.model.always = play
    async with world.host() as hf:
        session = await hf.sessions.create()
    ends[await killed(world, session, random.Random(seed).uniform(0, LONGEST_SECONDS))] += 1
    async with world.host() as hf:
        await recovered(hf, session)
        for child in (await hf.sessions.list(parent_id=session.id)).items:
            if copy_of(world, child.id).is_dir():
                world.model.plays(calling("apply_subagent", sessionID=child.id))
                await ask(hf, session, "apply it")
                assert isinstance((await states(hf, session))[-1], ToolCompleted)
                assert copy_of(world, child.id).is_file()
    async with world.host() as hf:
        await hf.sessions.list()
    contents = [(world.project / "files" / str(number)).read_text() for number in range(FILES)]
    changed = [text.endswith("new\n") for text in contents]
    before = ["uncommitted\n" if number == 1 else f"{number}\n" for number in range(FILES)]
    assert contents == [text + "new\n" * done for text, done in zip(before, changed, strict=True)]
    assert changed == sorted(changed, reverse=True), "the child's own command was killed in the middle at most"
    listed = world.git("worktree", "list", "--porcelain").count("worktree /")
    there = [path for path in (world.data / "copies").glob("ses_*") if path.is_dir()]
    assert listed == 1 + len(there)
    entries = world.project / ".git" / "worktrees"
    assert len(list(entries.iterdir()) if entries.exists() else []) == len(there)
    world.git("fsck")


async def killed(world: World, session: Session, seconds: float) -> str:
    """Let another process work on the Session for so long. Returns how it ended."""
    source = str(Path(__file__).parents[2] / "src")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOST, str(world.project), str(world.data), session.id),
        env={**os.environ, **world.environment, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    assert process.returncode in (0, -signal.SIGKILL)
    return "killed" if process.returncode else "not in time"


async def recovered(hf: Holdfast, session: Session) -> None:
    """Go on with everything that was left."""
    await hf.sessions.list()  # the first operation starts recovery
    for _ in range(10):
        for left in await hf.sessions.interrupted():
            await hf.sessions.recover(left.session_id, decision="continue")
        await hf.sessions.wait(session.id)
        if not await hf.sessions.interrupted():
            return
    raise AssertionError("something stays unfinished")
