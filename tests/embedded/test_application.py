"""What an application adds to its host: tools, facts for the System Context, and a policy for when nobody is there."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, PromptInput
from holdfast.client.generated.async_client import AsyncClient
from holdfast.core.context.source import JsonCodec, Source
from holdfast.core.permission.permission import Unattended
from holdfast.core.tool.registration import RegistrationError
from holdfast.embedded.tools import HostTools
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.session_message import AssistantMessage, SessionMessage, ToolCompleted, ToolError, ToolPart

pytestmark = pytest.mark.anyio

ECHO = ModelRef(id="echo", provider_id="demo")


def host(
    project: Path, model: ScriptedTransport, *, unattended: Unattended = "wait", data: Path | None = None
) -> Holdfast:
    data = data or project.parent / "data"
    return Holdfast(
        project, data=data, environment={"HOME": str(project.parent)}, transport=model, unattended=unattended
    )


def calling(tool: str, **given: Any) -> ScriptedTransport:
    return ScriptedTransport([Turn(calls=(Call(tool=tool, input=given),))])


def offered(model: ScriptedTransport, turn: int = 0) -> set[str]:
    return {tool["function"]["name"] for tool in model.requests[turn].get("tools", ())}


def tool_parts(messages: list[SessionMessage]) -> list[ToolPart]:
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    return [part for answer in answers for part in answer.content if isinstance(part, ToolPart)]


async def ask(hf: Holdfast, location: Location | None = None) -> list[SessionMessage]:
    session = await hf.sessions.create(model=ECHO, location=location)
    await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
    await hf.sessions.wait(session.id)
    return await hf.sessions.context(session.id)


@pytest.mark.parametrize("way", ["decorator", "renamed", "register"])
async def test_a_function_of_the_application_is_a_tool(project: Path, way: str) -> None:
    """API-401, API-403: at the top level of the one object; the model sees it, its value settles the call."""
    seen: list[str] = []

    async def lookup(ticket: str) -> str:
        """What a ticket says."""
        seen.append(ticket)
        return f"{ticket} is open"

    model = calling("lookup", ticket="T-1")
    async with host(project, model) as hf:
        if way == "decorator":
            assert hf.tool(lookup) is lookup
        elif way == "renamed":
            function, lookup_again = lookup, hf.tool(name="lookup")
            assert lookup_again(function) is function
        else:
            hf.tools.register({"lookup": lookup})
        (part,) = tool_parts(await ask(hf))

    assert seen == ["T-1"]
    assert "lookup" in offered(model)
    assert isinstance(part.state, ToolCompleted)
    assert part.state.content[0].text == "T-1 is open"  # type: ignore[union-attr]


async def test_a_tool_is_there_in_every_location_until_it_is_taken_back(project: Path, tmp_path: Path) -> None:
    """API-403, TOL-006: process-wide for this host; a later one of the same name covers the earlier until it ends."""

    def first() -> str:
        """One."""
        return "first"

    def second() -> str:
        """Two."""
        return "second"

    other = tmp_path / "other"
    other.mkdir()
    model = ScriptedTransport([turn for _ in range(4) for turn in (Turn(calls=(Call(tool="it", input={}),)), Turn())])
    async with host(project, model) as hf:
        hf.tools.register({"it": first})
        remove = hf.tools.register({"it": second})
        answers = [await ask(hf, Location(directory=str(place))) for place in (project, other)]
        remove()
        remove()
        answers.append(await ask(hf))
        states = [tool_parts(answer)[0].state for answer in answers]

    assert [state.structured["value"] for state in states if isinstance(state, ToolCompleted)] == [
        "second",
        "second",
        "first",
    ]


async def test_an_invalid_name_registers_nothing(project: Path, model: ScriptedTransport) -> None:
    """API-403: not even the good ones beside it."""

    def fine() -> str:
        """Fine."""
        return "fine"

    async with host(project, model) as hf:
        with pytest.raises(RegistrationError) as refused:
            hf.tools.register({"fine": fine, "no name": fine})
        await ask(hf)

    assert refused.value.name == "no name"
    assert not {"fine", "no name"} & offered(model)


async def test_registrations_end_with_their_host(project: Path, tmp_path: Path) -> None:
    """API-402, API-403, API-405: another host, before or after, has none of them."""

    def mine() -> str:
        """Mine."""
        return "mine"

    models = [ScriptedTransport() for _ in range(3)]
    async with host(project, models[0]) as hf, host(project, models[1], data=tmp_path / "second") as neighbour:
        hf.tools.register({"mine": mine})
        await ask(hf)
        await ask(neighbour)
    async with host(project, models[2]) as hf:
        await ask(hf)

    assert ["mine" in offered(model) for model in models] == [True, False, False]


async def test_interrupting_waits_for_a_blocking_tool(project: Path) -> None:
    """API-124, TOL-030: a function that is not asynchronous runs in a thread, and nothing else stops meanwhile."""
    started, release, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()
    ended: list[float] = []

    def slow() -> str:
        """Slow."""
        loop.call_soon_threadsafe(started.set)
        release.wait()
        ended.append(time.monotonic())
        return "done"

    async with host(project, calling("slow")) as hf:
        hf.tool(slow)
        session = await hf.sessions.create(model=ECHO)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await started.wait()
        assert (await hf.health.get()).healthy
        loop.call_later(1, release.set)  # long after the interruption has begun to wait
        await hf.sessions.interrupt(session.id)
        returned = time.monotonic()
        (part,) = tool_parts(await hf.sessions.context(session.id))

    assert ended[0] <= returned
    assert not isinstance(part.state, ToolCompleted)


async def test_a_fact_of_the_application_is_in_the_system_context(project: Path) -> None:
    """API-401, CTX-013: in the baseline, and told when it changes."""
    on_duty = ["Ada"]

    async def load() -> str:
        return on_duty[0]

    source = Source(
        key="desk/on-duty",
        codec=JsonCodec(str),
        load=load,
        baseline=lambda name: f"On duty: {name}.",
        update=lambda _, name: f"Now on duty: {name}.",
    )
    model = ScriptedTransport()
    async with host(project, model) as hf:
        hf.context.register(source)
        session = await hf.sessions.create(model=ECHO)
        for name in ("Ada", "Grace"):
            on_duty[0] = name
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            await hf.sessions.wait(session.id)

    first, second = (str(request["messages"]) for request in model.requests)
    assert "On duty: Ada." in first
    assert "On duty: Ada." in second
    assert "Now on duty: Grace." in second


@pytest.mark.parametrize(("unattended", "settled"), [("deny", ToolError), ("allow", ToolCompleted)])
async def test_an_unattended_host_denies_or_allows_at_once(
    project: Path, tmp_path: Path, unattended: Unattended, settled: type
) -> None:
    """TOL-354, API-402: denied or allowed at once, as the host was told."""
    outside = tmp_path / "outside.txt"
    outside.write_text("heliotrope\n", encoding="utf-8")
    model = calling("read", path=str(outside))
    async with host(project, model, unattended=unattended) as hf:
        (part,) = tool_parts(await asyncio.wait_for(ask(hf), 30))

    assert isinstance(part.state, settled)
    assert ("heliotrope" in str(model.requests[1])) == (settled is ToolCompleted)


async def test_somebody_who_is_there_answers(project: Path, tmp_path: Path) -> None:
    """API-133, API-400: the same operations as over the network; the turn waits for them."""
    outside = tmp_path / "outside.txt"
    outside.write_text("heliotrope\n", encoding="utf-8")
    model = calling("read", path=str(outside))
    async with host(project, model) as hf:
        asking = asyncio.create_task(ask(hf))
        async for event in hf.events.subscribe():
            if event.type == "server.connected" or event.type == "permission.v2.asked":
                pending = (await hf.permissions.list_requests()).data
                if pending:
                    await hf.permissions.reply(pending[0].session_id, request_id=pending[0].id, reply="once")
                    break
        (part,) = tool_parts(await asyncio.wait_for(asking, 30))

    assert isinstance(part.state, ToolCompleted)


def test_only_what_needs_the_same_process_extends_the_client() -> None:
    """API-401, API-406: groups are the client's own; nothing is nested, nothing public is added but these."""
    hf = Holdfast("/", data="/nowhere", environment={})
    client = {name for name in dir(AsyncClient) if not name.startswith("_")}
    own = {name for name in dir(hf) if not name.startswith("_")} - client

    assert isinstance(hf.tools, HostTools)
    assert own - set(vars(hf)) == {
        "answer",
        "application",
        "apply_retention",
        "ask",
        "compact_database",
        "config_schema",
        "default_model",
        "describe_store",
        "export_bundle",
        "export_traces",
        "import_bundle",
        "import_transcripts",
        "on_form",
        "on_permission",
        "on_question",
        "rebuild",
        "refresh_models",
        "reload",
        "run",
        "start_recovery",
        "stream",
        "traces",
        "verify",
        "verify_bundle",
    }
    assert {"sessions", "tools", "tool", "context"} <= set(vars(hf))
    assert not hasattr(hf, "client")
