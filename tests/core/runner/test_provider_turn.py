"""What a provider turn records: whole values at their end, hosted calls as given, usage that does not overlap."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from tests.core.conftest import script

from holdfast.core.runner.outbox import Outbox
from holdfast.core.runner.publish import NO_RESULT, TurnOf, TurnPublisher
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session.interrupt import Interrupt
from holdfast.llm import event as llm
from holdfast.llm.offline import ScriptedTransport, Turn
from holdfast.llm.request import ToolResult
from holdfast.schema.codec import encode
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import CacheTokens, Session, Tokens
from holdfast.schema.session_message import AssistantMessage, TextContent, TextPart, ToolCompleted, ToolError, ToolPart

pytestmark = pytest.mark.anyio

FOUND = ToolResult(type="json", value={"hits": 2})


async def _always() -> bool:
    return True


async def publish(runtime: Runtime, session: Session, *events: llm.Event) -> AssistantMessage:
    """A whole turn of these events, as the runner would record it."""
    lease = await runtime._ownership.acquire(session.id, session.location, Interrupt(), _always)
    assert lease is not None
    of = TurnOf(session.id, session.location, "build", ModelRef(id="m", provider_id="p"))
    outbox = Outbox(lease)
    publisher = TurnPublisher(runtime.log, outbox, of, runtime._ids, runtime._clock, lambda tokens: 0.0)
    for event in events:
        publisher.handle(event)
    publisher.close_fragments()
    publisher.fail_open_calls(interrupted=False)
    publisher.end()
    await outbox.commit()
    runtime._ownership.release(lease)
    assert publisher.message_id is not None
    message = (await runtime.sessions.message(session.id, publisher.message_id)).decode()
    assert isinstance(message, AssistantMessage)
    assert publisher.answer.message == message
    return message


async def test_deltas_are_announced_and_not_stored(runtime: Runtime, session: Session) -> None:
    """SES-101, LLM-382, EVT-023: thirty-two deltas are live only; start and whole text are what is kept."""
    deltas = [llm.TextDelta("text-0", f"{number} ") for number in range(32)]
    message = await publish(
        runtime, session, llm.TextStart("text-0"), *deltas, llm.TextEnd("text-0"), llm.StepFinish("stop")
    )
    events, _ = await runtime.sessions.history(session.id)
    assert [event.type.removeprefix("session.next.") for event in events] == [
        *("step.started", "text.started", "text.ended", "step.ended")
    ]
    assert [part.id for part in message.content] == ["text-0"]


async def test_usage_is_stored_without_overlap(runtime: Runtime, session: Session) -> None:
    """SES-108, LLM-383: input without cache, output without reasoning; what is unknown or absurd is nothing."""
    told = llm.Usage(input=100, output=50, cache_read=60, cache_write=10, reasoning=20)
    message = await publish(runtime, session, llm.StepFinish("stop", told))
    assert message.tokens == Tokens(input=30, output=30, reasoning=20, cache=CacheTokens(read=60, write=10))
    odd = await publish(runtime, session, llm.StepFinish("stop", llm.Usage(input=-5, cache_read=-1)))
    assert odd.tokens == Tokens(input=0, output=0, reasoning=0, cache=CacheTokens(read=0, write=0))
    totals = (await runtime.sessions.get(session.id)).tokens
    assert (totals.input, totals.cache.read) == (30, 60)


async def test_a_hosted_call_is_kept_as_the_provider_gave_it(runtime: Runtime, session: Session) -> None:
    """SES-124, SES-126: executed elsewhere, with the raw result and both sides' metadata."""
    message = await publish(
        runtime,
        session,
        llm.ToolInputStart("c", "web_search"),
        llm.ToolInputEnd("c", "web_search"),
        llm.ToolCall("c", "web_search", {"q": "x"}, provider_executed=True, metadata={"openai": {"itemId": "1"}}),
        llm.ToolResultEvent("c", "web_search", FOUND, metadata={"openai": {"itemId": "2"}}),
        llm.StepFinish("stop"),
    )
    (part,) = message.content
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolCompleted)
    assert part.provider is not None
    assert (part.provider.executed, part.provider.metadata, part.provider.result_metadata) == (
        True,
        {"openai": {"itemId": "1"}},
        {"openai": {"itemId": "2"}},
    )
    assert isinstance(part.state.result, msgspec.Raw)
    assert bytes(part.state.result) == encode(FOUND)
    assert part.state.structured == {"hits": 2}


async def test_a_hosted_call_without_a_result_is_failed(runtime: Runtime, session: Session) -> None:
    """SES-127, LLM-386: said as what it is, not as an interruption."""
    message = await publish(
        runtime,
        session,
        llm.ToolInputStart("c", "web_search"),
        llm.ToolInputEnd("c", "web_search"),
        llm.ToolCall("c", "web_search", {}, provider_executed=True),
        llm.StepFinish("stop"),
    )
    (part,) = message.content
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolError)
    assert part.state.error.message == NO_RESULT


CALL = llm.ToolCall("c", "web_search", {}, provider_executed=True)
START = llm.ToolInputStart("c", "web_search")
MALFORMED: dict[str, list[llm.Event]] = {
    "text started twice": [llm.TextStart("t"), llm.TextStart("t")],
    "reasoning started twice": [llm.ReasoningStart("r"), llm.ReasoningStart("r")],
    "input started twice": [START, START],
    "input started again after its end": [START, llm.ToolInputEnd("c", "web_search"), START],
    "delta before its start": [llm.TextDelta("t", "x")],
    "end before its start": [llm.TextEnd("t")],
    "input delta after its end": [
        START,
        llm.ToolInputEnd("c", "web_search"),
        llm.ToolInputDelta("c", "web_search", "{"),
    ],
    "another name for the same call": [START, llm.ToolInputDelta("c", "read", "{")],
    "the same call twice": [CALL, CALL],
    "a result before its call": [llm.ToolResultEvent("c", "web_search", FOUND)],
    "a second result": [
        CALL,
        llm.ToolResultEvent("c", "web_search", FOUND),
        llm.ToolResultEvent("c", "web_search", FOUND),
    ],
    "two finishes": [llm.StepFinish("stop"), llm.StepFinish("stop")],
}


@pytest.mark.parametrize("events", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_stream_is_a_defect(runtime: Runtime, session: Session, events: list[llm.Event]) -> None:
    """SES-104: it aborts the drain; nothing is guessed."""
    with pytest.raises(ValueError, match="the provider"):
        await publish(runtime, session, *events)


async def test_an_error_after_a_settlement_adds_nothing(runtime: Runtime, session: Session) -> None:
    """SES-105, SES-106: a call without input events gets them; a late error result is passed over."""
    late = llm.ToolResultEvent("c", "web_search", ToolResult(type="error", value="late"))
    message = await publish(
        runtime, session, CALL, llm.ToolResultEvent("c", "web_search", FOUND), late, llm.StepFinish("stop")
    )
    (part,) = message.content
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolCompleted)
    events, _ = await runtime.sessions.history(session.id)
    assert [event.type.removeprefix("session.next.") for event in events][:4] == [
        *("step.started", "tool.input.started", "tool.input.ended", "tool.called")
    ]


async def test_blocks_interleave_by_their_ids(runtime: Runtime, session: Session) -> None:
    """SES-102, SES-103: two texts opened together stay apart, in the order of their starts; what is open at the end is
    closed with what had arrived."""
    message = await publish(
        runtime,
        session,
        llm.TextStart("one"),
        llm.TextStart("two"),
        llm.TextDelta("two", "b"),
        llm.TextDelta("one", "a"),
        llm.TextEnd("one"),
        llm.TextDelta("two", "c"),
        llm.StepFinish("stop"),
    )
    assert [(part.id, part.text) for part in message.content if isinstance(part, TextPart)] == [
        ("one", "a"),
        ("two", "bc"),
    ]


async def test_progress_replaces_itself_and_outlives_a_failure(runtime: Runtime, session: Session) -> None:
    """SES-128, TOL-036: a checkpoint is wholesale, ignored for a call that does not run, and kept beside a failure."""
    lease = await runtime._ownership.acquire(session.id, session.location, Interrupt(), _always)
    assert lease is not None
    outbox = Outbox(lease)
    of = TurnOf(session.id, session.location, "build", ModelRef(id="m", provider_id="p"))
    publisher = TurnPublisher(runtime.log, outbox, of, runtime._ids, runtime._clock, lambda tokens: 0.0)
    publisher.handle(llm.ToolCall("c", "slow", {}))
    publisher.progress("c", {"done": 1, "gone": True}, (TextContent(text="one"),))
    publisher.progress("c", {"done": 2}, (TextContent(text="two"),))
    publisher.progress("nobody", {"done": 9}, ())
    publisher.fail_call("c", "broke")
    publisher.progress("c", {"done": 3}, ())
    publisher.handle(llm.StepFinish("tool-calls"))
    publisher.end()
    await outbox.commit()
    runtime._ownership.release(lease)
    assert publisher.message_id is not None
    message = (await runtime.sessions.message(session.id, publisher.message_id)).decode()
    assert isinstance(message, AssistantMessage)
    assert message == publisher.answer.message
    (part,) = message.content
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolError)
    assert (part.state.structured, part.state.content) == ({"done": 2}, (TextContent(text="two"),))


async def test_a_turn_says_which_session_it_belongs_to(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-097, LLM-384: both headers carry the Session's id, so that a provider can keep its cache near."""
    await runtime.sessions.prompt(session.id, Prompt(text="hi"))
    await runtime.sessions.wait(session.id)
    headers = {name.lower(): value for name, value in model.raw[0].headers.items()}
    assert (headers["x-session-affinity"], headers["x-session-id"]) == (session.id, session.id)


async def test_history_extends_the_request_it_grew_from(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-213: request n without its closing bytes is a prefix of request n+1."""
    script(model, Turn(text="one"), Turn(text="two"), Turn(text="three"))
    for text in ("first", "second", "third"):
        await runtime.sessions.prompt(session.id, Prompt(text=text))
        await runtime.sessions.wait(session.id)
    bodies = [b"".join(request.body) for request in model.raw]
    assert len(bodies) == 3
    for shorter, longer in itertools.pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))
