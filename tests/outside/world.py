"""One user's machine around an embedded host: a home, a project, a data folder, and the scripted provider."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from tests.outside.scripted_provider import PATIENCE, Model, calling

from holdfast import DurableEvent, Event, Holdfast, Options, PromptInput, Session
from holdfast.schema.session_message import (
    AssistantMessage,
    SessionMessage,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
)

Json = dict[str, Any]
NESTING: Json = {"permissions": [{"action": "subagent", "resource": "*", "effect": "allow"}]}
"""A `general` agent that may call others, so that tests can have deeper trees with it."""
UNCHECKED = Options(headers={"x-holdfast-checked": "0"})
"""Creates a Session as a client does that knows only the contract."""


class World:
    def __init__(self, home: Path, model: Model) -> None:
        self.home = home
        self.model = model
        self.project = home / "project"
        self.project.mkdir()
        (self.project / "hello.txt").write_text("hello world\n", encoding="utf-8")
        self.data = home / "data"
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
        self.config: Json = {}

    @property
    def user_folder(self) -> Path:
        """Where the user's own configuration lies."""
        folder = self.home / "config" / "opencode"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def provider(self, npm: str = "@ai-sdk/openai-compatible", **model: Any) -> Json:
        """The scripted provider, as a configuration file names it; `npm` says which protocol it speaks."""
        return {
            "npm": npm,
            "options": {"baseURL": self.model.url, "apiKey": "sk-scripted"},
            "models": {"m": {"tool_call": True, **model}},
        }

    def configure(self, **document: Any) -> None:
        """The user's own configuration file: the scripted model, no titles, a `general` that may call others, and what
        the test adds."""
        base: Json = {"model": "mock/m", "provider": {"mock": self.provider()}, "holdfast": {"titles": False}}
        agents = {"general": NESTING, **document.pop("agents", {})}
        text = json.dumps({**base, **document, "agents": agents})
        (self.user_folder / "opencode.json").write_text(text, encoding="utf-8")

    def host(self, **options: Any) -> Holdfast:
        """A host on this machine; opened with `async with`."""
        if not (self.user_folder / "opencode.json").exists():
            self.configure()
        given: Json = {"preset": "allow", "data": self.data, "environment": self.environment, **options}
        return Holdfast(given.pop("directory", self.project), **given)

    def write(self, path: str, text: str) -> Path:
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
        command = ["git", *who, *arguments]
        return subprocess.run(command, cwd=cwd or self.project, check=True, capture_output=True, text=True).stdout

    def repository(self) -> None:
        """Make the project a repository with one commit."""
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-qm", "first")


async def ask(hf: Holdfast, session: Session | str, text: str, **options: Any) -> None:
    """Prompt, and wait until all of it has been worked on."""
    id = session if isinstance(session, str) else session.id
    await hf.sessions.prompt(id, prompt=PromptInput(text=text), **options)
    async with asyncio.timeout(PATIENCE):
        await hf.sessions.wait(id)


async def answer(hf: Holdfast, session: Session, text: str = "go") -> AssistantMessage:
    """The newest answer, after a prompt."""
    await ask(hf, session, text)
    return await newest(hf, session)


async def newest(hf: Holdfast, session: Session) -> AssistantMessage:
    return answers(await hf.sessions.context(session.id))[-1]


def answers(messages: list[SessionMessage]) -> list[AssistantMessage]:
    return [message for message in messages if isinstance(message, AssistantMessage)]


def text_of(message: AssistantMessage) -> str:
    return "".join(part.text for part in message.content if isinstance(part, TextPart))


def tools_of(message: AssistantMessage) -> list[ToolPart]:
    return [part for part in message.content if isinstance(part, ToolPart)]


async def called(world: World, hf: Holdfast, session: Session, name: str, /, **input: Any) -> ToolPart:
    """What becomes of one call of a tool; the model goes on afterwards."""
    world.model.plays(calling(name, **input))
    await ask(hf, session, f"use {name}")
    parts = [part for message in answers(await hf.sessions.context(session.id)) for part in tools_of(message)]
    return parts[-1]


def result_of(world: World) -> str:
    """What the model read last as the result of a call."""
    return world.model.last.results[-1]


async def events(hf: Holdfast, session: Session | str) -> list[DurableEvent]:
    """The whole public history of a Session."""
    id = session if isinstance(session, str) else session.id
    found: list[DurableEvent] = []
    more = True
    while more:
        page = await hf.sessions.history(id, limit=100, after=position(found[-1]) if found else None)
        found += page.events
        more = page.has_more
    return found


async def types(hf: Holdfast, session: Session | str) -> list[str]:
    return [event.type.removeprefix("session.next.") for event in await events(hf, session)]


def position(event: Event) -> int:
    assert event.durable is not None
    return event.durable.seq


async def until(hf: Holdfast, session: Session | str, met: Callable[[Event], bool]) -> list[Event]:
    """The durable events of a Session, from the first up to the one that is waited for."""
    id = session if isinstance(session, str) else session.id
    seen: list[Event] = []
    async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.sessions.events(id))) as stream:
        async for event in stream:
            seen.append(event)
            if met(event):
                break
    return seen


def of_type(name: str) -> Callable[[Event], bool]:
    return lambda event: event.type == f"session.next.{name}"


class Hands:
    """A Session whose model does what the test says, one call at a time."""

    def __init__(self, world: World, hf: Holdfast, session: Session) -> None:
        self._world = world
        self._hf = hf
        self.session = session

    async def __call__(self, name: str, /, **input: Any) -> ToolCompleted:
        """One call that succeeds."""
        state = (await called(self._world, self._hf, self.session, name, **input)).state
        assert isinstance(state, ToolCompleted), state
        return state

    async def fails(self, name: str, /, **input: Any) -> str:
        """One call that does not; what the model is told."""
        state = (await called(self._world, self._hf, self.session, name, **input)).state
        assert isinstance(state, ToolError), state
        assert state.error.message in json.loads(result_of(self._world))["error"]
        return state.error.message

    @property
    def reads(self) -> str:
        """What the model read of the last call."""
        return result_of(self._world)


async def hands(world: World, hf: Holdfast, **session: Any) -> Hands:
    return Hands(world, hf, await hf.sessions.create(**session))
