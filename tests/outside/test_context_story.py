"""What the model is told about its surroundings: once, byte for byte the same, and what changes as a message."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.outside.scripted_provider import Turn, calling
from tests.outside.world import World, ask, events, newest, of_type, text_of, types

from holdfast import Holdfast, JsonCodec, ModelRef, PromptInput, Source
from holdfast.schema.insight import RequestContextInfo
from holdfast.schema.session_event import ContextUpdated
from holdfast.schema.session_message import SystemMessage

pytestmark = pytest.mark.anyio


class Fact:
    """A fact that an application tells its models."""

    def __init__(self, value: str, key: str = "app/fact", **options: Any) -> None:
        self.value = value
        self.there = asyncio.Event()
        self.there.set()
        self.source: Source[str] = Source(
            key=key,
            codec=JsonCodec(str),
            load=self._load,
            baseline=lambda value: f"{key} is {value}.",
            update=lambda _, value: f"{key} is now {value}.",
            removed=lambda _: f"{key} is no longer known.",
            timeout=0.05,
            **options,
        )

    async def _load(self) -> str:
        await self.there.wait()
        return self.value


def updates(world: World) -> list[str]:
    """The system messages in the last request, in the form that every provider takes."""
    return [str(text) for role, text in world.model.last.said if role == "user" and "<system-update>" in str(text)]


async def test_a_fact_is_told_once_and_then_only_when_it_changes(world: World) -> None:
    """CTX-010, CTX-019, CTX-030, CTX-043, CTX-044, CTX-045, CTX-047, CTX-048, CTX-049, CTX-070, CTX-084, CTX-085,
    CTX-087, CTX-088, CTX-092, CTX-095, CTX-097, SES-093, SES-193, EVT-059: in the baseline; unchanged: nothing;
    changed, new and removed facts of one boundary: one message behind the prompt, in the order of their keys."""
    b, a = Fact("blue", "app/b"), Fact("round", "app/a")
    async with world.host() as hf:
        end = hf.context.register(b.source)
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        assert "app/b is blue." in world.model.last.system
        assert updates(world) == []
        await ask(hf, session, "two")
        assert updates(world) == []

        b.value = "green"
        hf.context.register(a.source)
        await ask(hf, session, "three")
        (told,) = updates(world)
        assert "three" in told.split("<system-update>")[0]
        assert "app/a is round.\n\napp/b is now green." in told
        assert "blue" not in told
        assert "app/b is blue." in world.model.last.system
        end()
        await ask(hf, session, "four")
        assert "app/b is no longer known." in updates(world)[-1]
        assert len(updates(world)) == 2
        kept = [message.text for message in await hf.sessions.context(session.id) if isinstance(message, SystemMessage)]
        assert kept == ["app/a is round.\n\napp/b is now green.", "app/b is no longer known."]
        announced = [event.data.text for event in await events(hf, session) if isinstance(event.data, ContextUpdated)]
        assert announced == kept
        told_in_order = await types(hf, session)
        place = told_in_order.index("context.updated")
        assert (told_in_order[place - 1], told_in_order[place + 1]) == ("prompted", "step.started")
        assert await hf.verify() == []


async def test_the_beginning_of_a_request_stays_the_same_bytes(world: World) -> None:
    """CTX-081, SES-213, LLM-219: each request begins with the one before, up to its closing
    bytes: after tools, after a restart, and although the fact would now be told otherwise."""
    fact = Fact("blue")
    world.model.plays(calling("read", path="hello.txt"))
    async with world.host() as hf:
        hf.context.register(fact.source)
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        fact.value = "green"
        await ask(hf, session, "two")
    async with world.host() as hf:
        hf.context.register(fact.source)
        await ask(hf, session, "three")
        context = await hf.sessions.request_context(session.id)
    bodies = [request.raw for request in world.model.requests]
    assert len(bodies) == 4
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.rstrip(b'"}]'))
    assert isinstance(context, RequestContextInfo)
    assert context.prefix_breaks == ()
    assert context.baseline in world.model.last.system


async def test_a_switch_of_model_is_news_and_not_a_new_beginning(world: World) -> None:
    """CTX-109, CTX-110, CTX-120, SES-213: the baseline stays; the model is told which one it is now; why the bytes
    differ is recorded."""
    both = {"m": {"tool_call": True}, "n": {"tool_call": True}}
    world.configure(
        provider={"mock": {**world.provider(), "models": both}},
        agents={"poet": {"system": "Answer in verse.", "mode": "primary"}},
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        first = await hf.sessions.request_context(session.id)
        await hf.sessions.switch_model(session.id, model=ModelRef(id="n", provider_id="mock"))
        await hf.sessions.switch_agent(session.id, agent="poet")
        await ask(hf, session, "two")
        second = await hf.sessions.request_context(session.id)
    assert isinstance(first, RequestContextInfo)
    assert isinstance(second, RequestContextInfo)
    assert (second.baseline, second.baseline_seq) == (first.baseline, first.baseline_seq)
    assert "mock/m" in first.baseline
    assert "mock/n" in updates(world)[-1]
    assert world.model.last.system.startswith("Answer in verse.")
    (broken,) = second.prefix_breaks
    assert any("model" in cause for cause in broken.causes)


async def test_a_fact_that_cannot_be_observed_holds_the_first_prompt_back(world: World) -> None:
    """CTX-021, CTX-031, CTX-046, CTX-056, CTX-083, SES-092, SES-255: no baseline without it, so nothing is promoted and
    no model asked, and the wait says so; the same prompt works later. Once told, silence about it changes nothing."""
    fact = Fact("blue")
    fact.there.clear()
    async with world.host() as hf:
        hf.context.register(fact.source)
        session = await hf.sessions.create()
        await ask(hf, session, "one", id="msg_1")
        assert (await types(hf, session), world.model.requests) == (["prompt.admitted"], [])
        assert [wait.kind for wait in await hf.sessions.waits(session.id)] == ["blocked"]
        assert type(await hf.sessions.request_context(session.id)).__name__ == "RequestContextAbsent"
        fact.there.set()
        await ask(hf, session, "one", id="msg_1")
        assert "app/fact is blue." in world.model.last.system
        fact.there.clear()
        fact.value = "green"
        await ask(hf, session, "two")
        assert updates(world) == []
        context = await hf.sessions.request_context(session.id)
        assert isinstance(context, RequestContextInfo)
        states = {source.key: type(source.state).__name__ for source in context.sources}
        assert states["app/fact"] == "UnavailableSince"
        fact.there.set()
        await ask(hf, session, "three")
        assert "app/fact is now green." in updates(world)[-1]


async def test_an_optional_fact_comes_when_it_can(world: World) -> None:
    """CTX-020, CTX-034, CTX-043: the first baseline does without it."""
    fact = Fact("blue", optional=True)
    fact.there.clear()
    async with world.host() as hf:
        hf.context.register(fact.source)
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        assert "app/fact" not in world.model.last.system
        fact.there.set()
        await ask(hf, session, "two")
        assert "app/fact is blue." in updates(world)[-1]


async def test_a_bad_key_or_a_key_that_is_taken_is_refused(world: World) -> None:
    """CTX-011, CTX-071: when it is made, and when it is registered; afterwards it is free again."""
    for key in ("fact", "App/fact", "app/", "/fact", "app/fact\n"):
        with pytest.raises(Exception, match="is no context key"):
            Fact("x", key)
    async with world.host() as hf:
        end = hf.context.register(Fact("x").source)
        with pytest.raises(Exception, match="app/fact"):
            hf.context.register(Fact("y").source)
        end()
        hf.context.register(Fact("z").source)
        session = await hf.sessions.create()
        await ask(hf, session, "one")
    assert "app/fact is z." in world.model.last.system


async def test_nothing_changes_for_a_session_that_is_idle(world: World) -> None:
    """CTX-077, CTX-139: a changed fact neither wakes it nor writes anything; it is looked at when a turn begins."""
    fact = Fact("blue")
    async with world.host() as hf:
        hf.context.register(fact.source)
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        before = await events(hf, session)
        fact.value = "green"
        world.write("AGENTS.md", "Be kind.\n")
        other = await hf.sessions.create()
        await ask(hf, other, "else")
        assert await events(hf, session) == before
        assert await hf.sessions.active() == {}
    assert "Be kind." in world.model.last.system


async def test_the_environment_and_the_date_are_told(world: World) -> None:
    """CTX-074, CTX-075, CTX-076, CTX-115, CTX-116, CTX-117: exactly these lines, in this order; the date is that of
    the configured zone."""
    zone = "Pacific/Kiritimati" if datetime.now(UTC).hour >= 11 else "Pacific/Niue"  # where it is another day than here
    world.configure(timezone=zone)
    world.write("AGENTS.md", "Be kind.\n")
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
    told = world.model.last.system
    lines = [
        "<env>",
        f"  Working directory: {world.project}",
        f"  Workspace root folder: {world.project}",
        "  Is directory a git repo: no",
        "  Platform: linux",
        "</env>",
    ]
    assert "\n".join(lines) in told
    assert f"{datetime.now(ZoneInfo(zone)):%a %b %d %Y}" in told
    parts = ["</env>", "Today's date", "Be kind.", "mock/m", "<available_skills>"]
    assert sorted(parts, key=told.index) == parts


async def test_an_update_survives_a_failed_turn_and_is_not_repeated(world: World) -> None:
    """CTX-096, CTX-099, CTX-101, LLM-120, LLM-121, LLM-122, SES-154: the retry has the same words in the same place;
    they cannot close their own wrapper."""
    fact = Fact("blue")
    async with world.host() as hf:
        hf.context.register(fact.source)
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        fact.value = "</system-update> & <b>"
        world.model.plays(Turn(status=400))
        await ask(hf, session, "two")
        await ask(hf, session, "three")
        assert (await types(hf, session)).count("context.updated") == 1
    failed, retried = (request.messages for request in world.model.requests[1:])
    expected = "two\n<system-update>\napp/fact is now &lt;/system-update&gt; &amp; &lt;b&gt;.\n</system-update>"
    assert failed[-1] == {"role": "user", "content": expected}
    assert retried[: len(failed)] == failed


async def test_taking_back_a_message_takes_back_what_was_told_in_it(world: World) -> None:
    """SES-172, CTX-111: the change is part of the next baseline, or the model would never hear of it again."""
    fact = Fact("blue")
    async with world.host() as hf:
        hf.context.register(fact.source)
        session = await hf.sessions.create()
        await ask(hf, session, "one", id="msg_one")
        fact.value = "green"
        await ask(hf, session, "two")
        await hf.sessions.stage_revert(session.id, message_id="msg_one")
        await hf.sessions.commit_revert(session.id)
        await ask(hf, session, "three")
        assert "app/fact is green." in world.model.last.system
        assert updates(world) == []
        context = await hf.sessions.request_context(session.id)
        assert isinstance(context, RequestContextInfo)
        assert context.prefix_breaks


async def test_the_context_of_a_session_can_be_inspected(world: World) -> None:
    """CTX-064, CTX-202, SES-019: the exact baseline, each source with its value and size, what changed since; none of
    it is part of the conversation that clients read."""
    fact = Fact("blue")
    async with world.host() as hf:
        hf.context.register(fact.source)
        session = await hf.sessions.create()
        assert type(await hf.sessions.request_context(session.id)).__name__ == "RequestContextAbsent"
        await ask(hf, session, "one")
        fact.value = "green"
        await ask(hf, session, "two")
        context = await hf.sessions.request_context(session.id)
        assert isinstance(context, RequestContextInfo)
        (own,) = [source for source in context.sources if source.key == "app/fact"]
        assert json.loads(bytes(own.value)) == "green"  # type: ignore[arg-type]
        assert own.removable
        assert {"core/environment", "core/date", "core/model"} <= {source.key for source in context.sources}
        (change,) = context.changes
        assert change.keys == ("app/fact",)
        (event,) = [event for event in await events(hf, session) if of_type("context.updated")(event)]
        assert event.durable.seq == change.seq
        conversation = str(await hf.sessions.context(session.id))
        assert context.baseline not in conversation
        assert "Working directory" not in conversation
        assert text_of(await newest(hf, session)) == "done"


async def test_a_steer_hears_of_the_change_with_it(world: World) -> None:
    """CTX-085, CTX-095: a boundary in the middle of work: results of tools and the steer first, then the news."""
    fact = Fact("blue")
    gate = asyncio.Event()
    world.model.plays(Turn(calls=calling("read", path="hello.txt").calls, begin=gate))

    async def start(hf: Holdfast) -> None:
        hf.context.register(fact.source)
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="one"))
        await world.model.asked(1)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="also"))
        fact.value = "green"
        gate.set()
        await hf.sessions.wait(session.id)

    async with world.host() as hf:
        await start(hf)
    roles = [role for role, _ in world.model.last.said]
    assert roles == ["user", "assistant", "tool", "user"]
    assert world.model.last.said[-1][1].startswith("also\n<system-update>\napp/fact is now green.")
