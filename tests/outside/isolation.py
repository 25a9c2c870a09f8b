"""What tests of isolated subagents share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.tree_script import Cast
from tests.outside.world import World, answers, ask, tools_of

from holdfast import Holdfast, Session
from holdfast.schema.session_message import TextContent, ToolCompleted, ToolError


def isolated(prompt: str, **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "isolation": "worktree", **more}


def shell(command: str) -> Turn:
    return calling("bash", command=command)


async def states(hf: Holdfast, session: Session) -> list[Any]:
    """How the calls of a Session ended."""
    parts = [part for message in answers(await hf.sessions.context(session.id)) for part in tools_of(message)]
    return [part.state for part in parts]


async def delegated(hf: Holdfast, text: str = "root") -> tuple[Session, str, Any]:
    """A new Session that gives its first call to a child: the Session, the child's id, and how the call ended."""
    session = await hf.sessions.create()
    await ask(hf, session, text)
    state = (await states(hf, session))[0]
    return session, str(state.structured["sessionID"]), state


async def applying(world: World, hf: Holdfast, session: Session, child_id: str) -> Any:
    """How a call of `apply_subagent` ends."""
    cast = world.model.always
    assert isinstance(cast, Cast)
    cast.parts["root"] = [*cast.parts["root"], Turn(text="fine"), calling("apply_subagent", sessionID=child_id)]
    await ask(hf, session, "apply it")
    return (await states(hf, session))[-1]


def text(state: Any) -> str:
    """What the model reads of a call that succeeded."""
    assert isinstance(state, ToolCompleted), state
    return "".join(part.text for part in state.content if isinstance(part, TextContent))


def failure(state: Any) -> str:
    """What the model reads of a call that failed."""
    assert isinstance(state, ToolError), state
    return state.error.message


async def requested(hf: Holdfast, session: Session) -> Any:
    """The permission request that a Session waits for."""
    async with asyncio.timeout(PATIENCE):
        while not (requests := await hf.permissions.list(session.id)):  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.005)
    (request,) = requests
    return request


def told_to(cast: Cast, name: str) -> str:
    """Everything that a child has read."""
    return "".join(text or "" for _, text in cast.requests[name][-1].said)


def copy_of(world: World, child: str) -> Path:
    return world.data / "copies" / child


def worktrees(world: World) -> list[str]:
    """As git lists them."""
    listed = world.git("worktree", "list", "--porcelain").splitlines()
    return [line.removeprefix("worktree ") for line in listed if line.startswith("worktree ")]
