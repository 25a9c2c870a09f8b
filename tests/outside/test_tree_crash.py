"""A tree of Sessions whose process ends at every commit: each result arrives once, and no settled child runs again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.session.support_day_crash import Camera
from tests.outside.scripted_provider import PATIENCE, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, answers, tools_of

from holdfast import Holdfast, PromptInput, Session
from holdfast.schema.session_message import SyntheticMessage, ToolCompleted, ToolError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(1800),
    pytest.mark.store("sqlite", reason="copies of the file at each sync"),
]

BASH = {"command": "echo ran >> ran.txt", "description": "d"}


@pytest.fixture
def camera(tmp_path: Path, synced_commits: None) -> Iterator[Camera]:
    camera = Camera(tmp_path / "pictures")
    yield camera
    camera.unregister()


def small() -> Cast:
    """Two deep: a foreground child with a child that asks a person, and one in the background."""
    return Cast(
        root=[delegating("a", {"prompt": "later", "background": True})],
        a=[delegating("asks")],
        asks=[calling("bash", **BASH)],
        later=[calling("read", path="hello.txt")],
    )


def large() -> Cast:
    """Three deep and five wide, with a command at the bottom that asks a person."""
    widths = {name: [f"{name}{number}" for number in range(5)] for name in ("root", "root0", "root00")}
    parts = {name: [delegating(*below)] for name, below in widths.items()}
    leaves = [leaf for name, below in widths.items() for leaf in (below[1:] if name != "root00" else below)]
    parts |= {leaf: [calling("read", path="hello.txt")] for leaf in leaves}
    return Cast(**{**parts, "root004": [calling("bash", **BASH)]})


class Tree:
    """What one process after another makes of a tree."""

    def __init__(self, world: World, cast: Cast) -> None:
        self.world = world
        self.cast = cast
        self.ran = world.project / "ran.txt"
        world.configure(holdfast={"titles": False}, permission={"bash": "ask"})
        world.model.always = cast

    async def begin(self, hf: Holdfast) -> str:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        return session.id

    async def end(self, hf: Holdfast) -> None:
        """As a person brings it to its end: answers what is asked, and decides about what was left."""
        async with asyncio.timeout(PATIENCE):
            while not await self._is_over(hf):
                for session in await sessions_of(hf):
                    for request in await hf.permissions.list(session.id):
                        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
                for left in await hf.sessions.interrupted():
                    if left.stage != "waiting":
                        await hf.sessions.recover(left.session_id, decision="continue")
                await asyncio.sleep(0.005)

    async def check(self, hf: Holdfast) -> None:
        """Each child's result stands once in its parent's history, nothing is open, nothing ran twice."""
        heard = {session.id: await told(hf, session.id) for session in await sessions_of(hf)}
        for session in await sessions_of(hf):
            if session.parent_id is not None:
                result = f'<subagent sessionID="{session.id}" state="completed"'
                assert heard[session.parent_id].count(result) == 1, (session.id, heard[session.parent_id])
        assert not self.ran.exists() or len(self.ran.read_text(encoding="utf-8").splitlines()) == 1
        assert await hf.verify() == []

    async def _is_over(self, hf: Holdfast) -> bool:
        pending = [session for session in await sessions_of(hf) if await hf.sessions.pending(session.id)]
        return not pending and not await hf.sessions.active() and not await hf.sessions.interrupted()


async def sessions_of(hf: Holdfast) -> list[Session]:
    return (await hf.sessions.list(limit=200)).items


async def told(hf: Holdfast, session_id: str) -> str:
    """What the model of a Session was told by tools and programs."""
    messages = await hf.sessions.context(session_id)
    states = [part.state for answer in answers(messages) for part in tools_of(answer)]
    assert all(isinstance(state, ToolCompleted | ToolError) for state in states)
    results = [str(state.content) for state in states if isinstance(state, ToolCompleted)]
    return "\n".join(results + [message.text for message in messages if isinstance(message, SyntheticMessage)])


async def settled(hf: Holdfast) -> set[str]:
    """The prompts of tasks whose calls are settled with their results."""
    found = set()
    for session in await sessions_of(hf):
        for answer in answers(await hf.sessions.context(session.id)):
            states = [part.state for part in tools_of(answer) if part.name == "subagent"]
            done = [state for state in states if isinstance(state, ToolCompleted)]
            found |= {str(state.input["prompt"]) for state in done if state.structured["status"] == "completed"}
    return found


async def crash_everywhere(world: World, camera: Camera, cast: Cast, *, every: int = 1) -> int:
    """At each commit, or at every nth; how many commits there were."""
    tree = Tree(world, cast)
    async with world.host() as hf:
        camera.on = True
        root = await tree.begin(hf)
        await tree.end(hf)
        camera.on = False
        await tree.check(hf)
        assert tree.ran.exists()
    whole = [picture for picture in camera.pictures if picture.name.endswith("whole")]
    for picture in whole[::every]:
        tree.ran.unlink(missing_ok=True)
        async with world.host(data=picture, recover=False) as hf:
            if root not in {session.id for session in await sessions_of(hf)}:
                continue
            over = await settled(hf)
        cast.requests.clear()
        try:
            async with world.host(data=picture) as hf:
                await tree.end(hf)
                await tree.check(hf)
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(f"{picture.name} of {len(whole)}") from error
        assert over.isdisjoint(cast.requests), (picture.name, over)
    return camera.commits


async def test_a_small_tree_survives_a_crash(world: World, camera: Camera) -> None:
    """SES-187, SES-188, SES-190: foreground and background, and a request of a grandchild."""
    assert await crash_everywhere(world, camera, small(), every=3) > 20


@pytest.mark.prove
async def test_a_small_tree_survives_a_crash_at_every_commit(world: World, camera: Camera) -> None:
    """SES-187, SES-188, SES-190."""
    assert await crash_everywhere(world, camera, small()) > 20


@pytest.mark.prove
async def test_a_large_tree_survives_a_crash_at_every_commit(world: World, camera: Camera) -> None:
    """SES-187, SES-188, SES-190: three deep and five wide."""
    assert await crash_everywhere(world, camera, large()) > 40


class CommandTree(Tree):
    """A command that is a task. The child runs a command that asks a person."""

    def __init__(self, world: World) -> None:
        super().__init__(world, Cast(look=[calling("bash", **BASH)]))
        command = {"apart": {"template": "look", "subtask": True}}
        world.configure(holdfast={"titles": False}, permission={"bash": "ask"}, command=command)

    async def begin(self, hf: Holdfast) -> str:
        session = await hf.sessions.create()
        await hf.sessions.command(session.id, command="apart")
        return session.id


async def test_a_command_that_is_a_task_survives_a_crash_at_every_commit(world: World, camera: Camera) -> None:
    """CAT-243, SES-190: there is one child at most, and its result arrives once."""
    tree = CommandTree(world)
    async with world.host() as hf:
        camera.on = True
        await tree.begin(hf)
        await tree.end(hf)
        camera.on = False
        await tree.check(hf)
    for picture in [picture for picture in camera.pictures if picture.name.endswith("whole")]:
        tree.ran.unlink(missing_ok=True)
        try:
            async with world.host(data=picture) as hf:
                await tree.end(hf)
                await tree.check(hf)
                assert len(await sessions_of(hf)) <= 2
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(picture.name) from error
