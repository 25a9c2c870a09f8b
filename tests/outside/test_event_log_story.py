"""The event log as a client reads it: pages of history, replay from a position, following, live events, rebuilding."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.world import World, ask, events, of_type, position, types, until

from holdfast import ApiError, DurableEvent, Event, Holdfast, LiveEvent, PromptInput, Session
from holdfast.schema.live_event import TextDelta
from holdfast.schema.session_event import Prompted, SessionCreated, TextEnded

pytestmark = pytest.mark.anyio


async def follow(hf: Holdfast, session: Session, *, after: int | None, count: int) -> list[Event]:
    found: list[Event] = []
    async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.sessions.events(session.id, after=after))) as stream:
        while len(found) < count:
            found.append(await anext(stream))
    return found


async def test_a_follower_gets_everything_once_and_in_order_from_any_position(world: World) -> None:
    """EVT-021, EVT-023, EVT-024, EVT-029, EVT-032, API-202: from the start, from a position, or from the end while 64
    commits are made; resuming with the last position continues exactly there."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        past = await events(hf, session)
        at_once = asyncio.create_task(follow(hf, session, after=position(past[-1]), count=64))
        waiting = asyncio.create_task(follow(hf, session, after=None, count=len(past) + 64))
        for number in range(64):
            await hf.sessions.prompt(session.id, prompt=PromptInput(text=str(number)), resume=False)
        new, everything = await at_once, await waiting
        stored = await events(hf, session)
        assert [event.id for event in everything] == [event.id for event in stored]
        assert [event.id for event in new] == [event.id for event in stored[len(past) :]]
        resumed = await follow(hf, session, after=position(new[40]), count=23)
        assert [event.id for event in resumed] == [event.id for event in new[41:]]
        found = [position(event) for event in stored]
        assert found == sorted(set(found))


async def test_history_pages_are_exact(world: World) -> None:
    """EVT-028, EVT-029, API-122, SES-015: a full page with nothing behind it says so; positions are exclusive; limits
    are 1 to 100; a Session without events has an empty page."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        empty = await hf.sessions.history(session.id)
        assert (empty.events, empty.has_more) == ([], False)
        for number in range(6):
            await hf.sessions.prompt(session.id, prompt=PromptInput(text=str(number)), resume=False)
        first = await hf.sessions.history(session.id, limit=3)
        second = await hf.sessions.history(session.id, limit=3, after=position(first.events[-1]))
        assert (len(first.events), first.has_more) == (3, True)
        assert (len(second.events), second.has_more) == (3, False)
        assert position(second.events[0]) == position(first.events[-1]) + 1
        assert (await hf.sessions.history(session.id, after=0)).events[0] == first.events[0]
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="more"), resume=False)
        moved = await hf.sessions.history(session.id, after=position(second.events[-1]))
        assert len(moved.events) == 1
        for limit, after in ((0, None), (101, None), (1, -1)):
            with pytest.raises(ApiError) as refused:
                await hf.sessions.history(session.id, limit=limit, after=after)
            assert refused.value.code == "InvalidRequestError"


async def test_durable_and_live_events_can_be_told_apart(world: World) -> None:
    """EVT-004, EVT-005, EVT-006, EVT-030, EVT-047, EVT-049, API-201, API-215: who has a position is stored, under its
    version; live copies say where the Session is, replayed ones do not; the Session's creation is at 0 and private."""
    async with (
        world.host() as hf,
        asyncio.timeout(PATIENCE),
        aclosing(aiter(hf.events.subscribe())) as stream,
    ):
        greeting = await anext(stream)
        assert (greeting.type, greeting.durable) == ("server.connected", None)
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        live: list[Event] = []
        while not live or not of_type("step.ended")(live[-1]):
            live.append(await anext(stream))
        replayed = await events(hf, session)
    created = next(event for event in live if isinstance(event.data, SessionCreated))
    assert position(created) == 0
    assert "session.created" not in {event.type for event in replayed}
    heard = [event for event in live if isinstance(event, DurableEvent) and event.type.startswith("session.next.")]
    assert [event.id for event in heard] == [event.id for event in replayed]
    assert {event.location for event in heard} == {session.location}
    assert {event.location for event in replayed} == {None}
    versions = {event.type.removeprefix("session.next."): event.durable.version for event in replayed}
    assert versions == {
        "prompt.admitted": 1,
        "prompted": 1,
        "step.started": 1,
        "text.started": 1,
        "text.ended": 1,
        "step.ended": 2,
    }
    assert {event.durable.aggregate_id for event in replayed} == {session.id}
    deltas = [event for event in live if isinstance(event.data, TextDelta)]
    assert deltas
    assert all(isinstance(event, LiveEvent) for event in deltas)


async def test_deltas_add_up_to_the_text_that_is_kept(world: World) -> None:
    """EVT-045, EVT-050, API-441, EVT-023: a follower that asks for live events gets each block's pieces between its
    start and its end; they have no position; the end carries the whole, so that a missed piece costs nothing."""
    text = "one two three four five"
    gate = asyncio.Event()
    world.model.plays(Turn(text=text, end=gate, begin=gate))
    async with world.host() as hf, asyncio.timeout(PATIENCE):
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        seen: list[Event] = []
        async with aclosing(aiter(hf.sessions.events(session.id, live=True))) as stream:
            while not seen or not of_type("step.ended")(seen[-1]):
                seen.append(await anext(stream))
                if of_type("prompted")(seen[-1]):
                    gate.set()
    names = [event.type.removeprefix("session.next.") for event in seen]
    pieces = [event.data.delta for event in seen if isinstance(event.data, TextDelta)]
    (whole,) = [event.data.text for event in seen if isinstance(event.data, TextEnded)]
    assert "".join(pieces) == whole == text
    first, last = names.index("text.delta"), len(names) - 1 - names[::-1].index("text.delta")
    assert names.index("text.started") < first <= last < names.index("text.ended")
    assert all(event.durable is None for event in seen if isinstance(event.data, TextDelta))


async def test_deltas_of_a_short_answer_add_up_to_its_text(world: World) -> None:
    """EVT-045, EVT-050: also when a block begins and ends in one piece of the provider's answer, for whoever listens to
    everything that happens."""
    texts = ["short", "one two three", "a " * 50]
    async with world.host() as hf, asyncio.timeout(PATIENCE):
        session = await hf.sessions.create()
        async with aclosing(aiter(hf.events.subscribe())) as stream:
            assert (await anext(stream)).type == "server.connected"
            for text in texts:
                world.model.plays(Turn(text=text))
                await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
                pieces = []
                while not of_type("step.ended")(event := await anext(stream)):
                    if of_type("text.delta")(event):
                        pieces.append(msgspec.to_builtins(event.data)["delta"])
                assert "".join(pieces) == text


async def test_private_facts_use_positions_but_are_not_shown(world: World) -> None:
    """EVT-022, EVT-061: todos, dispatches and withdrawals leave gaps and nothing else; followers pass over them."""
    todos = [{"content": "x", "status": "pending", "priority": "low"}]
    world.model.plays(calling("todowrite", todos=todos))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, id="msg_gone", prompt=PromptInput(text="no"), resume=False)
        await hf.sessions.withdraw(session.id, message_id="msg_gone")
        await ask(hf, session, "go")
        shown = await events(hf, session)
        followed = await follow(hf, session, after=None, count=len(shown))
        names = set(await types(hf, session))
    assert [event.id for event in followed] == [event.id for event in shown]
    found = [position(event) for event in shown]
    assert found[-1] + 1 > len(found) + 1
    assert names <= {
        "prompt.admitted",
        "prompted",
        "step.started",
        "step.ended",
        "text.started",
        "text.ended",
        "tool.input.started",
        "tool.input.ended",
        "tool.called",
        "tool.success",
    }


async def test_everything_that_clients_see_can_be_made_again_from_the_log(world: World) -> None:
    """EVT-039, EVT-044: sessions, messages, inputs and todos are the same after all projections
    were thrown away."""
    world.model.plays(Turn(reasoning="hm", text="reading", calls=calling("read", path="hello.txt").calls))

    async def picture(hf: Holdfast, session: Session) -> list[Any]:
        return [
            msgspec.to_builtins(await hf.sessions.get(session.id)),
            msgspec.to_builtins(await hf.sessions.context(session.id)),
            msgspec.to_builtins(await hf.sessions.pending(session.id)),
            [event.id for event in await events(hf, session)],
        ]

    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        await hf.sessions.switch_agent(session.id, agent="plan")
        await hf.sessions.rename(session.id, title="Kept")
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="later"), resume=False)
        before = await picture(hf, session)
        assert await hf.verify() == []
        assert await hf.rebuild() == 1
        assert await picture(hf, session) == before
    async with world.host() as hf:
        assert await picture(hf, session) == before
    assert len(world.model.requests) == 2


async def test_a_follower_in_another_host_hears_what_this_one_commits(world: World) -> None:
    """EVT-062, SES-079, API-405: the same events, in order and without a gap, from a position on."""
    async with world.host() as one, world.host() as two:
        session = await one.sessions.create()
        await ask(one, session, "first")
        past = await events(two, session)
        following = asyncio.create_task(follow(two, session, after=position(past[-1]), count=6))
        await ask(one, session, "second")
        heard = await following
        assert [event.id for event in heard] == [event.id for event in (await events(one, session))[len(past) :]]
        await ask(two, session, "third")
        assert len(await one.sessions.context(session.id)) == 6


async def test_inputs_of_one_boundary_are_committed_together(world: World) -> None:
    """EVT-019, EVT-057, EVT-059: three steers of one boundary have consecutive positions, in the order of admission,
    before the step that answers them."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        for text in ("a", "b"):
            await hf.sessions.prompt(session.id, prompt=PromptInput(text=text), resume=False)
        await ask(hf, session, "c")
        found = await events(hf, session)
    promoted = [event for event in found if of_type("prompted")(event)]
    first = position(promoted[0])
    assert [position(event) for event in promoted] == [first, first + 1, first + 2]
    assert [event.data.prompt.text for event in promoted if isinstance(event.data, Prompted)] == ["a", "b", "c"]
    started = next(event for event in found if of_type("step.started")(event))
    assert position(started) > first + 2


async def test_an_unknown_session_has_no_stream(world: World) -> None:
    """EVT-021, EVT-029, API-123, API-312: the failure comes with the first element, not with the call."""
    async with world.host() as hf:
        stream = hf.sessions.events("ses_nobody")
        with pytest.raises(ApiError) as unknown:
            await anext(aiter(stream))
        assert unknown.value.code == "SessionNotFoundError"


async def test_a_stream_that_is_left_takes_nothing_with_it(world: World) -> None:
    """API-205, API-312: readers come and go; each opens its own request; the Session goes on for the others."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        stream = hf.sessions.events(session.id)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="one"), resume=False)
        for _ in range(3):
            async with aclosing(aiter(stream)) as reading:
                assert (await anext(reading)).type == "session.next.prompt.admitted"
        await ask(hf, session, "two")
        assert len(await until(hf, session, of_type("step.ended"))) == len(await events(hf, session))
