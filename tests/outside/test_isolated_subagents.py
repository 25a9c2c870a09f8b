"""Subagents in isolated copies of the project, with real git: what they see, what is offered, applied and removed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, answers, ask, newest, text_of, tools_of

from holdfast import Holdfast, PromptInput, Session
from holdfast.schema.session_message import SyntheticMessage, ToolCompleted, ToolError

pytestmark = pytest.mark.anyio


def isolated(prompt: str, **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "isolation": "worktree", **more}


async def states(hf: Holdfast, session: Session) -> list[Any]:
    parts = [part for message in answers(await hf.sessions.context(session.id)) for part in tools_of(message)]
    return [part.state for part in parts]


async def delegated(hf: Holdfast, text: str = "root") -> tuple[Session, str, Any]:
    """A new Session that gives its first call to a child: the Session, the child's id, and how the call ended."""
    session = await hf.sessions.create()
    await ask(hf, session, text)
    state = (await states(hf, session))[0]
    return session, str(state.structured["sessionID"]), state


def copy_of(world: World, child: str) -> Path:
    return world.data / "copies" / child


def worktrees(world: World) -> list[str]:
    listed = world.git("worktree", "list", "--porcelain").splitlines()
    return [line.removeprefix("worktree ") for line in listed if line.startswith("worktree ")]


async def test_a_child_works_in_a_copy_and_its_diff_is_offered(world: World) -> None:
    """SES-410, SES-411, TOL-470, TOL-471: uncommitted files are part of the copy, and nothing changes in the original."""
    world.repository()
    world.write("hello.txt", "hello uncommitted\n")
    world.write("new.txt", "new\n")
    cast = world.model.always = Cast(
        root=[delegating(isolated("work"))],
        work=[
            calling("read", path="hello.txt"),
            calling("write", path="made.txt", content="made\n"),
            calling("edit", path="new.txt", oldString="new", newString="newer"),
            Turn(text="all done"),
        ],
    )
    async with world.host() as hf:
        session, child_id, state = await delegated(hf)
        assert isinstance(state, ToolCompleted), state
        child = await hf.sessions.get(child_id)
        assert Path(child.location.directory) == copy_of(world, child_id)
        assert child.project_id == session.project_id
        assert "hello uncommitted" in cast.requests["work"][1].results[0]
        told = cast.requests["root"][-1].results[0]
        assert "all done" in told
        assert "+made" in told
        assert "-new\n+newer" in told
        assert "apply_subagent" in told
        assert str(copy_of(world, child_id)) in "".join(text for _, text in cast.requests["work"][0].said)
    assert (world.project / "new.txt").read_text() == "new\n"
    assert not (world.project / "made.txt").exists()
    assert (copy_of(world, child_id) / "made.txt").read_text() == "made\n"


async def test_the_changes_are_applied_with_approval_and_the_copy_is_removed(world: World) -> None:
    """TOL-473, TOL-474, SES-413: the request shows paths and diff; after a yes the files are here and the copy is gone."""
    world.repository()
    world.configure(permission={"edit": "ask"})
    cast = world.model.always = Cast(
        root=[delegating(isolated("work"))], work=[calling("bash", command="echo made > made.txt; rm hello.txt")]
    )
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        cast.parts["root"] = [delegating("x"), Turn(text="fine"), calling("apply_subagent", sessionID=child_id)]
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="apply it"))
        async with asyncio.timeout(PATIENCE):
            while not (requests := await hf.permissions.list(session.id)):
                await asyncio.sleep(0.005)
        (request,) = requests
        assert request.action == "edit"
        assert sorted(request.resources) == ["hello.txt", "made.txt"]
        assert request.metadata is not None
        assert "+made" in request.metadata["diff"]
        assert not (world.project / "made.txt").exists()
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        await hf.sessions.wait(session.id)
        state = (await states(hf, session))[-1]
        assert isinstance(state, ToolCompleted), state
        assert state.structured["files"] == [
            {"file": "hello.txt", "status": "deleted"},
            {"file": "made.txt", "status": "added"},
        ]
    assert (world.project / "made.txt").read_text() == "made\n"
    assert not (world.project / "hello.txt").exists()
    assert worktrees(world) == [str(world.project)]
    assert copy_of(world, child_id).is_file()
