"""A new configuration while Sessions are in the middle of their work."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.core.location.services import LocationServices
from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_message import AssistantMessage, TextPart

pytestmark = pytest.mark.anyio

SESSIONS = 50
WAVES = 5
"""One after the other, each with a reload: the first, the third and the fifth cannot have met the same generation."""
STEPS = 3
API = {"type": "aisdk", "package": "@ai-sdk/openai-compatible", "url": "http://lab.invalid/v1"}


class Saw(NamedTuple):
    """The generation of configuration that each part of one request comes from."""

    agent: int
    agent_option: int
    model_option: int
    provider_header: int


def write(home: Path, generation: int, plugins: list[str] | None = None) -> None:
    """Everything a request is made of names the generation that it comes from. In one step, as an editor saves."""
    model = {"request": {"body": {"seed": generation}}}
    config = {
        "model": "lab/m",
        "providers": {
            "lab": {"api": API, "request": {"headers": {"x-generation": str(generation)}}, "models": {"m": model}}
        },
        "agents": {"build": {"system": f"generation {generation}", "request": {"body": {"top_p": 1 / generation}}}},
        "plugins": plugins or [],
        "snapshots": False,
    }
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "next.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "next.json").replace(folder / "opencode.json")


def saw(model: ScriptedTransport, index: int) -> Saw:
    body, headers = model.requests[index], model.raw[index].headers
    system = body["messages"][0]["content"]
    text = system if isinstance(system, str) else system[0]["text"]
    return Saw(
        agent=int(text.split()[1]),
        agent_option=round(1 / body["top_p"]),
        model_option=body["seed"],
        provider_header=int(headers["x-generation"]),
    )


def consistent(seen: Saw) -> bool:
    return len(set(seen)) == 1


def works(body: dict[str, Any]) -> Turn:
    """A few calls, then an answer; no two calls of a Session are alike."""
    done = sum(message["role"] == "tool" for message in body["messages"])
    if done == STEPS:
        return Turn(text="finished")
    return Turn(text="looking", calls=(Call(tool="read", input={"path": "hello.txt", "limit": done + 1}),))


@pytest.fixture
async def model(tmp_path: Path) -> ScriptedTransport:
    """The configuration must be there before the runtime looks for it."""
    write(tmp_path, 1)
    return ScriptedTransport([works] * (SESSIONS * (STEPS + 1)))


async def begin(runtime: Runtime) -> Session:
    session = await runtime.sessions.create(location=runtime.location, project=await runtime.project(runtime.location))
    await runtime.sessions.prompt(session.id, Prompt(text="go"), resume=False)
    return session


async def test_every_turn_of_many_sessions_sees_one_configuration(
    runtime: Runtime, model: ScriptedTransport, tmp_path: Path
) -> None:
    """CAT-025, CAT-152: reloads while fifty Sessions run fail no turn, and no request is made of two generations."""
    sessions = [await begin(runtime) for _ in range(SESSIONS)]
    generations = itertools.count(2)
    async with runtime.locations.use(runtime.location) as services:
        for wave in range(WAVES):
            running = asyncio.gather(*(runtime.sessions.run(session.id) for session in sessions[wave::WAVES]))
            await _reload_until(running, services, tmp_path, generations)
            await running

    requests = range(len(model.requests))
    seen = [saw(model, index) for index in requests]
    by_session: dict[str, list[int]] = defaultdict(list)
    for index in requests:
        by_session[model.raw[index].headers["x-session-affinity"]].append(seen[index].agent)
    assert [one for one in seen if not consistent(one)] == []
    assert {id: len(turns) for id, turns in by_session.items()} == {session.id: STEPS + 1 for session in sessions}
    assert all(turns == sorted(turns) for turns in by_session.values())
    assert len({one.agent for one in seen}) > 2
    for session in sessions:
        (last_message,) = await runtime.sessions.messages(session.id, order="desc", limit=1)
        answer = last_message.decode()
        assert isinstance(answer, AssistantMessage)
        assert [part.text for part in answer.content if isinstance(part, TextPart)] == ["finished"]


async def _reload_until(
    running: asyncio.Future[Any], services: LocationServices, home: Path, generations: Iterator[int]
) -> None:
    """At least once."""
    for generation in generations:
        await asyncio.to_thread(write, home, generation)
        await services.config.reload()
        if running.done():
            return


SLOW_PLUGIN = """
import asyncio
from pathlib import Path

FOLDER = Path(__file__).parent

class Slow:
    id = "slow"

    async def setup(self, host):
        while not (FOLDER / "go").exists():
            await asyncio.sleep(0.002)

plugin = Slow()
"""


async def test_a_turn_that_waited_for_plugins_sees_one_configuration(
    runtime: Runtime, model: ScriptedTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAT-025, CAT-152: a reload while a turn waits for the Location's plugins counts for all of it, or for nothing."""
    file = tmp_path / "slow" / "plugin.py"
    file.parent.mkdir()
    file.write_text(SLOW_PLUGIN, encoding="utf-8")
    write(tmp_path, 2, [str(file)])
    session = await begin(runtime)
    async with runtime.locations.use(runtime.location) as services, asyncio.timeout(50):
        waits, ready = asyncio.Event(), services.catalog.ready

        async def told() -> None:
            waits.set()
            await ready()

        monkeypatch.setattr(services.catalog, "ready", told)
        running = asyncio.ensure_future(runtime.sessions.run(session.id))
        await waits.wait()
        write(tmp_path, 3)
        await services.config.reload()
        assert model.requests == []
        (file.parent / "go").touch()
        await running

    seen = [saw(model, index) for index in range(STEPS + 1)]
    assert [one for one in seen if not consistent(one)] == []
