"""When a conversation no longer fits: a summary takes the place of older history for the model, and for nobody else."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from tests.outside.dialects import sse
from tests.outside.scripted_provider import PATIENCE, Request, Turn, calling
from tests.outside.world import World, answers, ask, events, newest, of_type, position, text_of, types, until

from holdfast import ApiError, Holdfast, PromptInput, Session
from holdfast.schema.insight import RequestContextInfo
from holdfast.schema.live_event import CompactionDelta
from holdfast.schema.session_event import CompactionEnded, CompactionStarted
from holdfast.schema.session_message import CompactionMessage

pytestmark = pytest.mark.anyio

LONG = "word " * 2400
USAGE = {"prompt_tokens": 7, "completion_tokens": 3}


def is_summary(request: Request) -> bool:
    return "<conversation>" in str(request.messages[0]["content"]) and "tools" not in request.body


def summing_up(request: Request) -> Turn:
    return Turn(text="THE SUMMARY", usage=USAGE) if is_summary(request) else Turn(text="done")


def small(world: World, *, context: int = 14_000, **compaction: Any) -> None:
    """A model with a small window."""
    limit = {"context": context, "output": 1000}
    settings = {"buffer": 1000, "keep": {"tokens": 200}, **compaction}
    world.configure(provider={"mock": world.provider(limit=limit)}, compaction=settings)
    world.model.always = summing_up


async def talked(hf: Holdfast, *texts: str) -> Session:
    session = await hf.sessions.create()
    for text in texts:
        await ask(hf, session, text)
    return session


async def test_a_conversation_that_grows_too_long_is_summed_up_before_the_next_turn(world: World) -> None:
    """CMP-001, CMP-011, CMP-027, EVT-059, SES-196: by itself, once it does not fit; clients keep every
    message, the model reads the summary and goes on."""
    small(world)
    async with world.host() as hf:
        session = await talked(hf, "first " + LONG, "second " + LONG, "third " + LONG, "fourth " + LONG, "last")
        told = await types(hf, session)
        started = told.index("compaction.started")
        assert told[started:].index("compaction.ended") < told[started:].index("step.started")
        everything = (await hf.sessions.messages(session.id, limit=200)).items
        users = [message for message in everything if type(message).__name__ == "UserMessage"]
        assert len(users) == len(answers(everything)) == 5
        checkpoint = next(m for m in await hf.sessions.context(session.id) if isinstance(m, CompactionMessage))
        assert (checkpoint.reason, checkpoint.summary) == ("auto", "THE SUMMARY")
        assert await hf.verify() == []
    final = world.model.last
    assert "THE SUMMARY" in final.messages[0]["content"]
    assert "first word" not in str(final.messages)
    assert final.said[-1] == ("user", "last")
    assert len(final.raw) < max(len(request.raw) for request in world.model.requests)


async def test_compacting_by_hand_sends_one_request_without_tools(world: World) -> None:
    """CMP-013, CMP-014, CMP-015, CMP-018, CMP-019, CMP-022, CMP-040, CTX-105, SES-097: one request
    without tools and system text, with labels and shortened results; the newest is kept word for word; no turn follows;
    the next one begins with the checkpoint."""
    small(world, context=100_000)
    world.write("big.txt", "0123456789" * 500 + "\n")
    async with world.host() as hf:
        session = await hf.sessions.create()
        world.model.plays(Turn(text="Reading.", reasoning="I should read", calls=calling("read", path="big.txt").calls))
        await ask(hf, session, "Read it")
        world.write("AGENTS.md", "Be kind.\n")
        await ask(hf, session, "Thanks")
        before = len(world.model.requests)
        await hf.sessions.compact(session.id)
        assert len(world.model.requests) == before + 1
        request = world.model.last
        assert [message["role"] for message in request.body["messages"]] == ["user"]
        assert "tools" not in request.body
        assert request.body["max_tokens"] <= 4096
        assert request.headers["x-session-id"] == session.id
        asked = request.messages[0]["content"]
        body, instructions = asked.split("</conversation>")
        assert asked.startswith("<conversation>")
        assert instructions.strip()
        for label in ("[User]: Read it", "[Assistant]: Reading.", "[Assistant reasoning]: I should read"):
            assert label in body
        assert '[Assistant tool call]: read({"path":"big.txt"})' in body
        assert "[truncated]" in body
        assert "0123456789" * 210 not in body
        (message,) = [item for item in await hf.sessions.context(session.id) if isinstance(item, CompactionMessage)]
        assert (message.reason, message.summary) == ("manual", "THE SUMMARY")
        assert "Thanks" in message.recent
        assert "System update]: " in body + message.recent
        await ask(hf, session, "Go on")
        first = world.model.last.messages[0]["content"]
    assert first.startswith("<conversation-checkpoint>")
    assert "<summary>\nTHE SUMMARY\n</summary>" in first
    assert "<recent-context>" in first
    assert "Thanks" in first


async def test_a_summary_is_told_as_it_is_written_and_paid_for(world: World) -> None:
    """CMP-027, CMP-028, CMP-038, SES-076: deltas for who listens, and its end in short; two durable events with one id;
    its tokens are the Session's."""
    small(world, context=100_000)
    async with world.host() as hf, aclosing(aiter(hf.events.subscribe())) as live:
        await anext(live)
        session = await talked(hf, LONG, "short")
        before = (await hf.sessions.get(session.id)).tokens
        await hf.sessions.compact(session.id)
        spoken = ""
        async with asyncio.timeout(PATIENCE):
            while not isinstance((event := await anext(live)).data, CompactionEnded):
                spoken += event.data.text if isinstance(event.data, CompactionDelta) else ""
            assert (await anext(live)).type == "session.compacted"
        assert spoken == "THE SUMMARY"
        found = [event.data for event in await events(hf, session)]
        (started,) = [data for data in found if isinstance(data, CompactionStarted)]
        (ended,) = [data for data in found if isinstance(data, CompactionEnded)]
        assert (started.message_id, started.reason) == (ended.message_id, ended.reason)
        after = (await hf.sessions.get(session.id)).tokens
    assert (after.input - before.input, after.output - before.output) == (7, 3)


async def test_a_second_summary_builds_on_the_first(world: World) -> None:
    """CMP-021, CMP-019: the earlier summary is given apart, what was kept goes in front."""
    small(world, context=100_000)
    async with world.host() as hf:
        session = await talked(hf, LONG, "kept words")
        await hf.sessions.compact(session.id)
        await ask(hf, session, "newer words")
        await hf.sessions.compact(session.id)
    asked = world.model.last.messages[0]["content"]
    conversation = asked[: asked.index("</conversation>")]
    assert "kept words" in conversation or "newer words" in conversation
    prior = asked[asked.index("<prior-summary>") : asked.index("</prior-summary>")]
    assert "THE SUMMARY" in prior
    assert "THE SUMMARY" not in conversation


async def test_a_new_beginning_after_a_summary(world: World) -> None:
    """CMP-024, CTX-103, CTX-089, CTX-091, SES-150, SES-151: what was told as news is part of the new baseline; old news
    leave the model's history and stay in the list of messages; why the prefix broke is recorded."""
    small(world, context=100_000)
    world.write("AGENTS.md", "OLD RULES\n")
    async with world.host() as hf:
        session = await talked(hf, LONG, "two")
        world.write("AGENTS.md", "NEW RULES\n")
        await ask(hf, session, "three")
        assert "OLD RULES" in world.model.last.system
        await hf.sessions.compact(session.id)
        await ask(hf, session, "four")
        request = world.model.last
        assert "NEW RULES" in request.system
        assert "OLD RULES" not in request.system
        assert "<system-update>" not in str(request.messages)
        kinds = [type(message).__name__ for message in (await hf.sessions.messages(session.id)).items]
        assert kinds.count("SystemMessage") == 1
        context = await hf.sessions.request_context(session.id)
        assert isinstance(context, RequestContextInfo)
        assert any("compaction" in cause for broken in context.prefix_breaks for cause in broken.causes)


async def test_a_checkpoint_can_be_inspected_and_undone(world: World) -> None:
    """CMP-043: what it replaced and what it saved; undone while nothing followed, refused afterwards."""
    small(world, context=100_000)
    async with world.host() as hf:
        session = await talked(hf, LONG, "two")
        assert await hf.sessions.checkpoint(session.id) is None
        before = await hf.sessions.context(session.id)
        await hf.sessions.compact(session.id)
        info = await hf.sessions.checkpoint(session.id)
        assert info is not None
        assert info.replaced == tuple(message.id for message in before)
        assert info.tokens_before > info.tokens_after
        await hf.sessions.undo_compaction(session.id)
        assert await hf.sessions.context(session.id) == before
        await hf.sessions.compact(session.id)
        await ask(hf, session, "three")
        with pytest.raises(ApiError) as late:
            await hf.sessions.undo_compaction(session.id)
        assert late.value.code == "ConflictError"


@pytest.mark.parametrize("turn", [Turn(status=400), Turn(text="  ")], ids=["refused", "blank"])
async def test_a_summary_that_fails_changes_nothing(world: World, turn: Turn) -> None:
    """CMP-010, CMP-029: refused or blank: the attempt has an end, the history is what it was, and work goes
    on."""
    small(world, context=100_000)
    async with world.host() as hf:
        session = await talked(hf, LONG, "two")
        before = await hf.sessions.context(session.id)
        world.model.plays(turn)
        with pytest.raises(ApiError):
            await hf.sessions.compact(session.id)
        assert (await types(hf, session))[-2:] == ["compaction.started", "compaction.failed"]
        assert await hf.sessions.context(session.id) == before
        await ask(hf, session, "three")
        assert text_of(await newest(hf, session)) == "done"


async def test_an_interruption_ends_a_summary_without_a_checkpoint(world: World) -> None:
    """CMP-036, CMP-029: nothing is left half done."""
    small(world, context=100_000)
    never = asyncio.Event()
    async with world.host() as hf:
        session = await talked(hf, LONG, "two")
        before = await hf.sessions.context(session.id)
        world.model.plays(Turn(text="half", end=never))
        compacting = asyncio.create_task(hf.sessions.compact(session.id))
        await until(hf, session, of_type("compaction.started"))
        await world.model.asked(3)
        await hf.sessions.interrupt(session.id)
        with pytest.raises(ApiError):
            await compacting
        assert (await types(hf, session))[-1] == "compaction.failed"
        assert await hf.sessions.context(session.id) == before
        assert await hf.sessions.active() == {}


OVERFLOW = "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."


async def test_a_provider_that_says_too_long_gets_a_shorter_request_once(world: World) -> None:
    """CMP-030, CMP-031, CMP-037, CMP-006, LLM-333, LLM-336: overflow, summary, retry: three requests and one
    answer; also where automatic compaction is off. A second overflow is the end of it."""
    small(world, context=100_000, auto=False)
    async with world.host() as hf:
        session = await talked(hf, LONG, "two")
        before = len(world.model.requests)
        world.model.plays(Turn(status=400, error=OVERFLOW))
        await ask(hf, session, "three")
        asked = world.model.requests[before:]
        assert [is_summary(request) for request in asked] == [False, True, False]
        assert "THE SUMMARY" in str(asked[2].messages)
        assert (await newest(hf, session)).finish == "stop"
        assert "step.failed" not in await types(hf, session)

        other = await talked(hf, LONG, "two")
        before = len(world.model.requests)
        world.model.plays(Turn(status=400, error=OVERFLOW), summing_up, Turn(status=400, error=OVERFLOW))
        await ask(hf, other, "three")
        assert len(world.model.requests) == before + 3
        failed = await newest(hf, other)
        assert failed.error is not None
        assert "maximum context length" in failed.error.message


async def test_an_overflow_that_cannot_be_helped_is_the_turns_failure(world: World) -> None:
    """CMP-033, LLM-334, LLM-335: a rate limit that speaks of tokens is no overflow; nor is one after the answer
    began."""
    world.model.always = summing_up
    small(world, context=100_000)
    async with world.host() as hf:
        session = await talked(hf, LONG, "two")
        for status, error in ((400, "rate limit: too many tokens"), (413, "request too large")):
            world.model.plays(Turn(status=status, error=error))
            await ask(hf, session, "again")
        gate = asyncio.Event()
        late = sse({"error": {"message": OVERFLOW, "code": "context_length_exceeded"}})
        world.model.plays(Turn(text="half", end=gate, tail=late))
        receipt = await hf.sessions.prompt(session.id, prompt=PromptInput(text="and again"))
        await until(
            hf, session, lambda event: of_type("text.started")(event) and position(event) > receipt.admitted_seq
        )
        gate.set()
        await hf.sessions.wait(session.id)
        assert text_of(await newest(hf, session)) == "half"
        assert "compaction.started" not in await types(hf, session)


async def test_automatic_compaction_can_be_switched_off(world: World) -> None:
    """CMP-004, CMP-006, CAT-161: a request that is too large is sent as it is."""
    small(world, auto=False)
    async with world.host() as hf:
        session = await talked(hf, LONG, LONG, LONG, LONG, LONG)
        assert "compaction.started" not in await types(hf, session)
    assert len(world.model.requests) == 5
    assert str(world.model.last.messages).count(LONG.strip()) == 5


async def test_input_that_arrives_during_a_summary_waits_for_it(world: World) -> None:
    """CMP-040, CMP-038: one after the other for the same Session; the inbox is not touched."""
    small(world, context=100_000)
    gate = asyncio.Event()
    async with world.host() as hf:
        session = await talked(hf, LONG, "two")
        world.model.plays(Turn(text="THE SUMMARY", begin=gate))
        compacting = asyncio.create_task(hf.sessions.compact(session.id))
        await world.model.asked(3)
        receipt = await hf.sessions.prompt(session.id, prompt=PromptInput(text="meanwhile"))
        assert [input.id for input in await hf.sessions.pending(session.id)] == [receipt.id]
        gate.set()
        await compacting
        await hf.sessions.wait(session.id)
    assert world.model.last.said[0][1].startswith("<conversation-checkpoint>")
    assert world.model.last.said[-1] == ("user", "meanwhile")


async def test_instructions_of_a_manual_compaction_reach_the_summary(world: World) -> None:
    """CMP-040: for that one only."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        for _ in range(3):
            await ask(hf, session, "word " * 4000)
        await hf.sessions.compact(session.id, instructions="Keep the colour BLUE.")
        assert "Keep the colour BLUE." in str(world.model.last.messages)
        with pytest.raises(ApiError) as refused:
            await hf.sessions.compact(session.id, instructions="x" * 10_001)
        assert refused.value.status == 400
