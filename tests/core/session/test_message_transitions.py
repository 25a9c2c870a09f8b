"""How events change projected messages: the life of a tool call, of a step, and what must not change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.conftest import MODEL, messages, new_session, tables

from holdfast.core.database.errors import StorageError
from holdfast.core.runtime.runtime import Runtime
from holdfast.schema import session_event as ev
from holdfast.schema.codec import decode_any
from holdfast.schema.record import Record
from holdfast.schema.session import Session
from holdfast.schema.session_message import (
    AssistantMessage,
    TextContent,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolPending,
    ToolRunning,
    UnknownError,
)

pytestmark = pytest.mark.anyio

HERE = ev.Provider(executed=False)
Step = tuple[type[Record], dict[str, Any]]


class Story:
    """Publishes events of one assistant message; the clock is a counter."""

    def __init__(self, runtime: Runtime, session_id: str, message_id: str = "msg_a") -> None:
        self._runtime = runtime
        self.session_id = session_id
        self.message_id = message_id
        self.time = 100

    async def tell(self, kind: type[Record], **fields: Any) -> int:
        self.time += 1
        stamp = {"timestamp": self.time, "session_id": self.session_id, "assistant_message_id": self.message_id}
        return (await self._runtime.log.publish(kind(**{**stamp, **fields}))).last

    async def start(self, message_id: str = "msg_a") -> int:
        self.message_id = message_id
        return await self.tell(ev.StepStarted, agent="build", model=MODEL)

    async def message(self, id: str | None = None) -> AssistantMessage:
        stored = await self._runtime.sessions.message(self.session_id, id or self.message_id)
        message = stored.decode()
        assert isinstance(message, AssistantMessage)
        return message

    async def call(self) -> ToolPart:
        part = (await self.message()).content[-1]
        assert isinstance(part, ToolPart)
        return part


@pytest.fixture
async def story(runtime: Runtime, session: Session) -> Story:
    return Story(runtime, session.id)


INPUT_STARTED: Step = (ev.ToolInputStarted, {"call_id": "c1", "name": "read"})
INPUT_ENDED: Step = (ev.ToolInputEnded, {"call_id": "c1", "text": '{"path":"x"}'})
CALLED: Step = (ev.ToolCalled, {"call_id": "c1", "tool": "read", "input": {"path": "x"}, "provider": HERE})
PROGRESS: Step = (ev.ToolProgress, {"call_id": "c1", "structured": {"at": 1}, "content": (TextContent(text="half"),)})
SUCCESS: Step = (
    ev.ToolSuccess,
    {"call_id": "c1", "structured": {"done": True}, "content": (TextContent(text="all"),), "provider": HERE},
)
FAILED: Step = (ev.ToolFailed, {"call_id": "c1", "error": UnknownError(message="no"), "provider": HERE})
pending = ToolPending(input="")
received = ToolPending(input='{"path":"x"}')
running = ToolRunning(input={"path": "x"}, structured={}, content=())
halfway = ToolRunning(input={"path": "x"}, structured={"at": 1}, content=(TextContent(text="half"),))
completed = ToolCompleted(input={"path": "x"}, structured={"done": True}, content=(TextContent(text="all"),))
failed = ToolError(input={"path": "x"}, structured={}, content=(), error=UnknownError(message="no"))
failed_pending = ToolError(input={}, structured={}, content=(), error=UnknownError(message="no"))
failed_halfway = ToolError(
    input={"path": "x"}, structured={"at": 1}, content=(TextContent(text="half"),), error=UnknownError(message="no")
)


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ([], pending),
        ([INPUT_ENDED], received),
        ([INPUT_ENDED, CALLED], running),
        ([CALLED, PROGRESS], halfway),
        ([CALLED, SUCCESS], completed),
        ([CALLED, PROGRESS, SUCCESS], completed),
        ([CALLED, FAILED], failed),
        ([CALLED, PROGRESS, FAILED], failed_halfway),
        ([FAILED], failed_pending),
        ([INPUT_ENDED, FAILED], failed_pending),
        # What comes too early or too late is ignored.
        ([SUCCESS], pending),
        ([PROGRESS], pending),
        ([CALLED, INPUT_ENDED], running),
        ([CALLED, SUCCESS, FAILED], completed),
        ([CALLED, SUCCESS, PROGRESS], completed),
        ([CALLED, SUCCESS, CALLED], completed),
        ([CALLED, FAILED, SUCCESS], failed),
        ([FAILED, CALLED], failed_pending),
        ([FAILED, INPUT_ENDED], failed_pending),
        ([CALLED, SUCCESS, SUCCESS], completed),
    ],
    ids=lambda value: "-".join(kind.__name__ for kind, _ in value) or "started" if isinstance(value, list) else "",
)
async def test_the_states_of_a_call(story: Story, steps: list[Step], state: object) -> None:
    """SES-200, SES-202: pending, running, then completed or error; nothing leaves a settled state."""
    await story.start()
    for kind, fields in (INPUT_STARTED, *steps):
        await story.tell(kind, **fields)
    assert (await story.call()).state == state


async def test_the_times_and_the_provider_of_a_call(story: Story) -> None:
    """SES-199: created, ran, completed; who executed it; the call's metadata stays beside the result's."""
    await story.start()
    for kind, fields in (INPUT_STARTED, CALLED, SUCCESS):
        fields = dict(fields)
        if kind is not ev.ToolInputStarted:
            fields["provider"] = ev.Provider(executed=True, metadata={"p": {"of": kind.__name__}})
        await story.tell(kind, **fields)
    assert decode_any(msgspec.json.encode(await story.call())) == {
        "type": "tool",
        "id": "c1",
        "name": "read",
        "provider": {
            "executed": True,
            "metadata": {"p": {"of": "ToolCalled"}},
            "resultMetadata": {"p": {"of": "ToolSuccess"}},
        },
        "state": {
            "status": "completed",
            "input": {"path": "x"},
            "structured": {"done": True},
            "content": [{"type": "text", "text": "all"}],
        },
        "time": {"created": 102, "ran": 103, "completed": 104},
    }


async def test_a_call_id_used_twice_means_the_newest_item(story: Story) -> None:
    """SES-202, SES-203: the settled first one keeps what it has."""
    await story.start()
    for kind, fields in (INPUT_STARTED, CALLED, FAILED, INPUT_STARTED, CALLED, SUCCESS):
        await story.tell(kind, **fields)
    states = [part.state for part in (await story.message()).content if isinstance(part, ToolPart)]
    assert states == [failed, completed]


async def test_updates_apply_to_the_named_message_only(runtime: Runtime, story: Story) -> None:
    """SES-203: the same call id in another turn is another call; an older open message is not revived."""
    await story.start("msg_one")
    for kind, fields in (INPUT_STARTED, CALLED):
        await story.tell(kind, **fields)
    await story.start("msg_two")
    for kind, fields in (INPUT_STARTED, CALLED, SUCCESS):
        await story.tell(kind, **fields)
    await story.tell(ev.TextStarted, text_id="t")
    await story.tell(ev.TextEnded, text_id="t", text="only in two")
    one, two = await story.message("msg_one"), await story.message("msg_two")
    assert [part.state for part in one.content if isinstance(part, ToolPart)] == [running]
    assert [part.state for part in two.content if isinstance(part, ToolPart)] == [completed]
    assert len(one.content) == 1


@pytest.mark.parametrize("whose", ["unknown", "another session's", "not an assistant"])
async def test_events_for_a_message_that_is_not_there_change_nothing(
    runtime: Runtime, story: Story, whose: str
) -> None:
    """SES-203: no message is made, none is changed, and the publisher is not bothered."""
    await story.start()
    await story.tell(ev.TextStarted, text_id="t")
    for kind, fields in (INPUT_STARTED, CALLED):
        await story.tell(kind, **fields)
    other = await new_session(runtime)
    note = ev.Synthetic(timestamp=1, session_id=story.session_id, message_id="msg_note", text="note")
    await runtime.log.publish(note)
    before = [await messages(runtime, id) for id in (story.session_id, other.id)]

    if whose == "unknown":
        stray = Story(runtime, story.session_id, "msg_unknown")
    elif whose == "another session's":
        stray = Story(runtime, other.id, "msg_a")
    else:
        stray = Story(runtime, story.session_id, "msg_note")
    for kind, fields in (INPUT_STARTED, INPUT_ENDED, CALLED, PROGRESS, SUCCESS, FAILED):
        await stray.tell(kind, **fields)
    await stray.tell(ev.TextStarted, text_id="t")
    await stray.tell(ev.TextEnded, text_id="t", text="stray")
    await stray.tell(ev.ReasoningEnded, reasoning_id="r", text="stray")
    await stray.tell(ev.StepFailed, error=UnknownError(message="stray"))

    assert [await messages(runtime, id) for id in (story.session_id, other.id)] == before
    assert await runtime.verify() == []


async def test_a_new_step_closes_the_newest_message_only(runtime: Runtime, story: Story) -> None:
    """SES-204: with the new step's time and neither finish nor error; older open ones stay as they are."""
    await story.start("msg_one")
    await story.start("msg_two")
    with tables(runtime) as sql:  # as a process might have left it that knew no such rule
        sql("update session_message set data = json_remove(data, '$.time.completed') where id = 'msg_one'")
    await story.start("msg_three")
    one, two, three = [await story.message(f"msg_{name}") for name in ("one", "two", "three")]
    assert (one.time.completed, two.time.completed, three.time.completed) == (None, 103, None)
    assert all(message.finish is None and message.error is None for message in (one, two, three))


async def test_a_new_step_leaves_an_ended_message_alone(story: Story) -> None:
    """SES-204: what was closed keeps its own time and finish."""
    await story.start("msg_one")
    await story.tell(ev.StepFailed, error=UnknownError(message="broke"))
    before = await story.message("msg_one")
    await story.start("msg_two")
    assert await story.message("msg_one") == before
    assert (before.finish, before.time.completed) == ("error", 102)


async def test_a_message_keeps_its_place_whatever_happens_to_it(runtime: Runtime, story: Story) -> None:
    """SES-205: `seq` is that of the creating event; later updates move nothing."""
    first = await story.start("msg_z")
    second = await story.start("msg_a")
    story.message_id = "msg_z"
    await story.tell(ev.TextStarted, text_id="t")
    await story.tell(ev.StepFailed, error=UnknownError(message="broke"))
    stored = await runtime.sessions.messages(story.session_id, order="asc", limit=10)
    assert [(message.id, message.seq) for message in stored] == [("msg_z", first), ("msg_a", second)]


@pytest.mark.parametrize("where", ["same session", "another session"])
async def test_a_message_id_is_created_once(runtime: Runtime, story: Story, where: str) -> None:
    """SES-205, SES-039: the second creating event fails whole; the first message survives unchanged."""
    await story.start("msg_a")
    target = story.session_id if where == "same session" else (await new_session(runtime)).id
    before = await story.message("msg_a")
    latest = await runtime.log.latest(target)
    rivals: list[Record] = [
        ev.Synthetic(timestamp=9, session_id=target, message_id="msg_a", text="again"),
        ev.ContextUpdated(timestamp=9, session_id=target, message_id="msg_a", text="again"),
        ev.StepStarted(timestamp=9, session_id=target, assistant_message_id="msg_a", agent="x", model=MODEL),
    ]
    for rival in rivals:
        with pytest.raises(StorageError):
            await runtime.log.publish(rival)
    assert await story.message("msg_a") == before
    assert await runtime.log.latest(target) == latest


@pytest.mark.parametrize("ending", ["success", "failure"])
async def test_the_raw_result_of_a_hosted_call_is_kept_and_replayed(
    runtime: Runtime, story: Story, ending: str
) -> None:
    """SES-200: it is in the message, the message can be read, and the log can be projected anew."""
    raw = msgspec.Raw(b'{"hits":[{"rank":1.0}]}')
    await story.start()
    kind, fields = SUCCESS if ending == "success" else FAILED
    for step in (INPUT_STARTED, CALLED, (kind, {**fields, "result": raw, "provider": ev.Provider(executed=True)})):
        await story.tell(step[0], **step[1])
    stored = await runtime.sessions.message(story.session_id, "msg_a")
    assert decode_any(stored.wire)["content"][0]["state"]["result"] == {"hits": [{"rank": 1.0}]}
    assert (await story.call()).state is not None
    assert await runtime.verify() == []
