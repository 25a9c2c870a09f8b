"""What the events of a provider turn do to the assistant message, its text and its reasoning."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.event.samples import ASSISTANT, MODEL, NASTY, Story, raw

from holdfast.core.database.errors import StorageError
from holdfast.schema.record import Record
from holdfast.schema.session import CacheTokens, Tokens
from holdfast.schema.session_event import (
    Provider,
    ReasoningEnded,
    ReasoningStarted,
    StepEnded,
    StepFailed,
    StepStarted,
    TextEnded,
    TextStarted,
    ToolCalled,
    ToolFailed,
    ToolInputEnded,
    ToolInputStarted,
    ToolProgress,
    ToolSuccess,
)
from holdfast.schema.session_message import (
    AssistantMessage,
    ReasoningPart,
    StepSnapshot,
    TextPart,
    Time,
    ToolPart,
    UnknownError,
)

pytestmark = pytest.mark.anyio

TOKENS = Tokens(input=1, output=2, reasoning=3, cache=CacheTokens(read=4, write=5))
HERE = Provider(executed=False)


async def test_a_step_starts_an_assistant_message(story: Story) -> None:
    """EVT-046, EVT-052: agent, model, start snapshot; empty content."""
    await story.tell(StepStarted, at=100, assistant_message_id=ASSISTANT, agent="build", model=MODEL, snapshot="tree1")
    assert await story.assistant() == AssistantMessage(
        id=ASSISTANT,
        time=Time(created=100),
        agent="build",
        model=MODEL,
        content=(),
        snapshot=StepSnapshot(start="tree1"),
    )


async def test_a_new_step_closes_the_newest_open_message_only(story: Story) -> None:
    """EVT-046, SES-204: with the new step's time, no finish and no error; older open ones are not revived."""
    for number in (1, 2, 3):
        await story.step(f"msg_{number}", at=number * 100)
    raw(story.database.path, "update session_message set data = json_remove(data, '$.time.completed') where seq = 1")
    await story.step("msg_4", at=400)
    messages = [await story.assistant(f"msg_{number}") for number in (1, 2, 3, 4)]
    assert [message.time for message in messages] == [
        Time(created=100),
        Time(created=200, completed=300),
        Time(created=300, completed=400),
        Time(created=400),
    ]
    assert all(message.finish is None and message.error is None for message in messages)


async def test_a_closed_message_keeps_its_own_end(turn: Story) -> None:
    """EVT-046, SES-204: a new step does not touch what has ended."""
    await turn.say(StepEnded, at=150, finish="stop", cost=0.0, tokens=TOKENS)
    await turn.step("msg_2", at=400)
    assert (await turn.assistant()).time == Time(created=100, completed=150)


async def test_the_end_of_a_step_completes_its_message(story: Story) -> None:
    """EVT-046: completion, finish, cost, tokens, end snapshot and files beside the start snapshot."""
    await story.tell(StepStarted, at=1, assistant_message_id=ASSISTANT, agent="a", model=MODEL, snapshot="tree1")
    await story.say(StepEnded, at=9, finish="tool-calls", cost=0.25, tokens=TOKENS, snapshot="tree2", files=("a", "b"))
    message = await story.assistant()
    assert message.time == Time(created=1, completed=9)
    assert (message.finish, message.cost, message.tokens) == ("tool-calls", 0.25, TOKENS)
    assert message.snapshot == StepSnapshot(start="tree1", end="tree2", files=("a", "b"))
    assert message.error is None


async def test_a_failed_step_has_its_error_and_finish(turn: Story) -> None:
    """EVT-046: completion, finish `error`, and the error as it was said."""
    await turn.say(StepFailed, at=9, error=UnknownError(message=NASTY))
    message = await turn.assistant()
    assert message.time == Time(created=100, completed=9)
    assert (message.finish, message.error, message.tokens) == ("error", UnknownError(message=NASTY), None)


async def test_a_text_item_starts_empty_and_ends_whole(turn: Story) -> None:
    """EVT-046: the end sets the full text, whatever characters it has."""
    await turn.say(TextStarted, text_id="t")
    assert await turn.part() == TextPart(id="t", text="")
    await turn.say(TextEnded, text_id="t", text=NASTY)
    assert await turn.part() == TextPart(id="t", text=NASTY)


async def test_a_reasoning_item_starts_empty_and_ends_whole(turn: Story) -> None:
    """EVT-046: text, completion; metadata of the end replaces that of the start, if there is any."""
    first, last = {"p": {"signature": "a"}}, {"p": {"signature": NASTY}}
    await turn.say(ReasoningStarted, at=5, reasoning_id="r", provider_metadata=first)
    assert await turn.part() == ReasoningPart(id="r", text="", provider_metadata=first, time=Time(created=5))
    await turn.say(ReasoningEnded, at=6, reasoning_id="r", text=NASTY)
    ended = ReasoningPart(id="r", text=NASTY, provider_metadata=first, time=Time(created=5, completed=6))
    assert await turn.part() == ended
    await turn.say(ReasoningEnded, at=7, reasoning_id="r", text="x", provider_metadata=last)
    assert await turn.part() == ReasoningPart(
        id="r", text="x", provider_metadata=last, time=Time(created=5, completed=7)
    )


async def test_items_keep_the_order_in_which_they_started(turn: Story) -> None:
    """EVT-058: whatever the order of their ends; an id that comes again is a new item and the newest is meant."""
    await turn.say(ReasoningStarted, reasoning_id="0")
    await turn.say(TextStarted, text_id="0")
    await turn.call("0", {})
    await turn.say(TextStarted, text_id="0")
    await turn.say(TextEnded, text_id="0", text="second")
    await turn.say(ToolSuccess, call_id="0", structured={}, content=(), provider=HERE)
    await turn.say(ReasoningEnded, reasoning_id="0", text="thought")
    content = (await turn.assistant()).content
    assert [type(item) for item in content] == [ReasoningPart, TextPart, ToolPart, TextPart]
    assert [item.text for item in content if isinstance(item, TextPart)] == ["", "second"]


@pytest.mark.parametrize("target", ["msg_unknown", "msg_user", "msg_elsewhere"])
async def test_only_the_named_assistant_of_this_session_changes(turn: Story, target: str) -> None:
    """EVT-046, SES-203: content for an unknown message, another kind or another Session is stored and ignored."""
    other = Story(turn.database, turn.log, "ses_two")
    await other.begin()
    await other.step("msg_elsewhere")
    await other.tell(TextStarted, assistant_message_id="msg_elsewhere", text_id="t")
    await turn.tell(StepStarted, assistant_message_id="msg_newer", agent="a", model=MODEL)
    before = await turn.projections(), await other.projections()
    for kind, fields in _ALL:
        await turn.tell(kind, assistant_message_id=target, **fields)
    after = await turn.projections(), await other.projections()
    assert [rows["messages"] for rows in after] == [rows["messages"] for rows in before]
    assert [rows["parts"] for rows in after] == [rows["parts"] for rows in before]


async def test_two_messages_cannot_share_an_id(turn: Story) -> None:
    """EVT-010, EVT-052: the second creating event fails and the first message survives."""
    await turn.say(TextStarted, text_id="t")
    before = await turn.projections()
    with pytest.raises(StorageError):
        await turn.step(ASSISTANT, at=999)
    assert await turn.projections() == before


@pytest.mark.store("sqlite", reason="the growth of the write-ahead log")
async def test_ending_an_item_writes_that_item_and_not_the_message(turn: Story) -> None:
    """EVT-020: with much text in the message already, another boundary writes no more than the first did."""
    large = "x" * 100_000
    wal = turn.database.path.with_name(turn.database.path.name + "-wal")
    growth: list[int] = []
    for number in range(8):
        await turn.say(TextStarted, text_id=f"t{number}")
        await turn.say(TextEnded, text_id=f"t{number}", text=large)
        before = wal.stat().st_size
        await turn.say(TextStarted, text_id=f"small{number}")
        await turn.say(TextEnded, text_id=f"small{number}", text="x")
        growth.append(wal.stat().st_size - before)
    assert max(growth) < 100_000
    assert max(growth) <= 3 * growth[0]


_ALL: list[tuple[type[Record], dict[str, Any]]] = [
    (TextStarted, {"text_id": "t"}),
    (TextEnded, {"text_id": "t", "text": "x"}),
    (ReasoningStarted, {"reasoning_id": "t"}),
    (ReasoningEnded, {"reasoning_id": "t", "text": "x"}),
    (ToolInputStarted, {"call_id": "t", "name": "n"}),
    (ToolInputEnded, {"call_id": "t", "text": "x"}),
    (ToolCalled, {"call_id": "t", "tool": "n", "input": {}, "provider": HERE}),
    (ToolProgress, {"call_id": "t", "structured": {}, "content": ()}),
    (ToolSuccess, {"call_id": "t", "structured": {}, "content": (), "provider": HERE}),
    (ToolFailed, {"call_id": "t", "error": UnknownError(message="m"), "provider": HERE}),
    (StepEnded, {"finish": "stop", "cost": 0.0, "tokens": TOKENS}),
    (StepFailed, {"error": UnknownError(message="m")}),
]
