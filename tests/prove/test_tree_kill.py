"""`kill -9` of a process that works on a tree of Sessions, at random commits."""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.outside.conftest import model, world
from tests.outside.test_tree_crash import Tree, large, sessions_of, settled
from tests.outside.world import World

__all__ = ["model", "world"]
pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(3600)]

HOST = Path(__file__).with_name("killed_tree.py")
KILLS = 200


def killed(world: World, data: Path, session_id: str, at: int, when: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, str(HOST), str(world.project), str(data), session_id, str(at), when],
        cwd=world.project,
        env={**world.environment, "PYTHONPATH": f"{root}:{root / 'src'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def test_a_killed_tree_loses_and_doubles_nothing(world: World, tmp_path: Path) -> None:
    """SES-187, SES-188, SES-190: three deep and five wide, with a request of a person at the bottom: each result
    arrives once, nothing stays open, and no child whose call is settled runs again."""
    tree = Tree(world, large())
    async with world.host() as hf:
        session_id = (await hf.sessions.create()).id
    whole = tmp_path / "whole"
    shutil.copytree(world.data, whole)
    ended = await asyncio.to_thread(killed, world, whole, session_id, 0, "after")
    assert ended.returncode == 0, ended.stderr
    commits = int(ended.stdout)
    chance = random.Random(commits)
    reached = 0
    for number in range(KILLS):
        at, when = chance.randint(1, commits), chance.choice(("before", "after"))
        data = tmp_path / str(number)
        shutil.copytree(world.data, data)
        tree.ran.unlink(missing_ok=True)
        ended = await asyncio.to_thread(killed, world, data, session_id, at, when)
        assert ended.returncode in (0, -9), ended.stderr
        reached += ended.returncode == -9
        try:
            async with world.host(data=data, recover=False) as hf:
                over = await settled(hf)
                assert len(await sessions_of(hf)) >= 1
            tree.cast.requests.clear()
            async with world.host(data=data) as hf:
                await tree.end(hf)
                await tree.check(hf)
            assert over.isdisjoint(tree.cast.requests), over
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(f"killed {when} commit {at} of {commits}: {data}") from error
        shutil.rmtree(data)
    print(f"{commits} commits, {reached} of {KILLS} kills reached")
    assert reached > KILLS // 2
