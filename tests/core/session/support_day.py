"""A place where a Session lives through changes: a home, a data directory and a project that outlive any runtime,
and the conversation that its model must be sent, word for word."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
from tests.conftest import MODEL, ManualClock

from holdfast.core.clock import Clock
from holdfast.core.context.view import request_context
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_message import AssistantMessage, SessionMessage, ToolPart

OTHER_MODEL = ModelRef(id="scripted", provider_id="demo")
MORNING = 1_780_459_200_000
"""Wed Jun 03 2026, 04:00 UTC."""
DAY = 24 * 3_600_000
GENTLE = {"snapshots": False, "timezone": "UTC", "compaction": {"auto": False, "keep": {"tokens": 10}}}
AGENTS = "AGENTS.md"


class Place:
    def __init__(self, folder: Path, **config: Any) -> None:
        self.folder = folder
        self.home, self.data, self.project = folder / "home", folder / "data", folder / "project"
        self.home.mkdir(parents=True, exist_ok=True)
        (self.project / ".opencode" / "skills").mkdir(parents=True, exist_ok=True)
        # As much of a repository as the runtime looks at: its mark, and the project's id.
        self.write(".git/opencode", "tides")
        self.environment = {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        self.configure(**config)

    def with_data(self, data: Path) -> Place:
        """The same home and project, with what another process left."""
        other = copy.copy(self)
        other.data = data
        return other

    def configure(self, **config: Any) -> None:
        """The user's own configuration; read when a Location is opened or reloads."""
        self.write(self.home / ".config" / "opencode" / "opencode.json", json.dumps({**GENTLE, **config}))

    def write(self, path: Path | str, text: str | bytes) -> Path:
        """A file of the project, or at an absolute path."""
        path = self.project / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def skill(self, name: str, description: str) -> Path:
        text = f"---\nname: {name}\ndescription: {description}\n---\nHow to.\n"
        return self.write(f".opencode/skills/{name}/SKILL.md", text)

    def runtime(self, transport: Any, clock: Clock | None = None, **options: Any) -> Runtime:
        return Runtime(
            paths=Paths(self.data),
            directory=self.project,
            environment=dict(self.environment),
            transport=transport,
            clock=clock or ManualClock(MORNING),
            options=HostOptions(**{"titles": False, **options}),
        )


async def begin(runtime: Runtime, *, location: Location | None = None, **options: Any) -> Session:
    here = location or runtime.location
    return await runtime.sessions.create(
        location=here, project=await runtime.project(here), **{"model": MODEL, **options}
    )


async def say(runtime: Runtime, session_id: str, text: str) -> None:
    """One prompt, until the Session is idle again."""
    await runtime.sessions.prompt(session_id, Prompt(text=text))
    await runtime.sessions.wait(session_id)


async def view(runtime: Runtime, session_id: str) -> Any:
    """What people may see of the stored epoch, as they get it."""
    seen = await request_context(runtime.epochs, runtime.database, session_id)
    return msgspec.json.decode(msgspec.json.encode(seen))


async def states(runtime: Runtime, session_id: str) -> dict[str, str]:
    return {source["key"]: source["state"]["type"] for source in (await view(runtime, session_id))["sources"]}


async def history(runtime: Runtime, session_id: str) -> list[SessionMessage]:
    return [stored.decode() for stored in await runtime.sessions.messages(session_id, order="asc", limit=200)]


async def tools_of(runtime: Runtime, session_id: str) -> list[ToolPart]:
    """Every call of the Session with how it stands, in order."""
    answers = [message for message in await history(runtime, session_id) if isinstance(message, AssistantMessage)]
    return [part for answer in answers for part in answer.content if isinstance(part, ToolPart)]


def calling(*calls: tuple[str, dict[str, Any]], text: str | None = None) -> Turn:
    return Turn(text=text, calls=tuple(Call(tool=tool, input=given) for tool, given in calls))


def play(transport: ScriptedTransport, *turns: Turn) -> None:
    """What the model does from its next request on."""
    transport._turns += [Turn(text="done")] * (len(transport.requests) - len(transport._turns))
    transport._turns[len(transport.requests) :] = turns


# -- what the model was sent ------------------------------------------------------------------------------------


class Conversation:
    """The messages that a request must have: OpenAI's chat format, updates wrapped and joined to what they follow."""

    def __init__(self, *system: str) -> None:
        self.messages: list[dict[str, Any]] = []
        self.begin(*system)

    def begin(self, *system: str) -> None:
        """Other system parts in front of the same conversation."""
        self.messages[:1] = [{"role": "system", "content": "\n".join(system)}]

    def user(self, text: str, *updates: str) -> list[dict[str, Any]]:
        wrapped = [wrap(update) for update in updates]
        self.messages.append({"role": "user", "content": "\n".join([text, *wrapped])})
        return list(self.messages)

    def assistant(self, text: str = "done") -> None:
        self.messages.append({"role": "assistant", "content": text})


def wrap(update: str) -> str:
    escaped = update.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<system-update>\n{escaped}\n</system-update>"


def paragraphs(*texts: str) -> str:
    return "\n\n".join(texts)


def body(transport: ScriptedTransport, index: int) -> bytes:
    return b"".join(transport.raw[index].body)


def heard(request: dict[str, Any]) -> str:
    """Everything in a request that a model reads, in order."""
    contents = (message.get("content") for message in request["messages"])
    return "\n".join(
        content if isinstance(content, str) else json.dumps(content) for content in contents if content is not None
    )
