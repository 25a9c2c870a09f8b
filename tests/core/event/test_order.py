"""Ordering guarantees, seen in the log of Sessions that really ran."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.core.event.samples import raw

from holdfast.core.runtime.runtime import Runtime
from holdfast.core.scope import Scope
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.prompt import Delivery, Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_message import ToolCompleted, ToolPart

pytestmark = pytest.mark.anyio

READ = Call(tool="read", input={"path": "hello.txt"})
STEP = "session.next.step."


class Logged(NamedTuple):
    seq: int
    type: str
    data: dict[str, Any]


@pytest.fixture
async def model() -> ScriptedTransport:
    return ScriptedTransport(
        [
            Turn(text="I look twice.", calls=(READ, READ)),
            Turn(text="I saw the steers.", calls=(READ,)),
            Turn(text="Enough."),
            Turn(text="First of the queue.", calls=(READ,)),
            Turn(text="Done with it."),
            Turn(text="Second of the queue."),
        ]
    )


@pytest.fixture
async def events(runtime: Runtime, session: Session, model: ScriptedTransport) -> list[Logged]:
    """A Session that was steered and queued into while its first turn was held."""
    gate = model.hold(0)
    await _prompt(runtime, session, "start", "steer")
    await model.seen(1)
    for text, delivery in (("q1", "queue"), ("s1", "steer"), ("q2", "queue"), ("s2", "steer"), ("s3", "steer")):
        await _prompt(runtime, session, text, "queue" if delivery == "queue" else "steer")
    gate.set()
    await runtime.sessions.wait(session.id)
    return await _events(runtime, session)


async def test_inputs_are_promoted_after_their_admission_and_in_its_order(events: list[Logged]) -> None:
    """EVT-057: admitted before prompted, for each; steers among themselves and queued among themselves in order."""
    admitted = {event.data["messageID"]: event for event in _of(events, "session.next.prompt.admitted")}
    prompted = _of(events, "session.next.prompted")
    assert len(admitted) == len(prompted) == 6
    assert {event.data["messageID"] for event in prompted} == set(admitted)
    for event in prompted:
        assert admitted[event.data["messageID"]].seq < event.seq
    for delivery in ("steer", "queue"):
        order = [event for event in prompted if event.data["delivery"] == delivery]
        assert order == sorted(order, key=lambda event: admitted[event.data["messageID"]].seq)
    assert [event.data["prompt"]["text"] for event in prompted] == ["start", "s1", "s2", "s3", "q1", "q2"]


async def test_content_lies_between_the_start_and_the_one_end_of_its_step(events: list[Logged]) -> None:
    """EVT-057: started, content, then exactly one terminal event; the next step starts after it."""
    steps: dict[str, list[Logged]] = {}
    for event in events:
        if (assistant := event.data.get("assistantMessageID")) is not None:
            steps.setdefault(assistant, []).append(event)
    assert len(steps) == 6
    for step in steps.values():
        assert step[0].type == STEP + "started"
        assert step[-1].type == STEP + "ended"
        assert not any(event.type.startswith(STEP) for event in step[1:-1])
    ranges = [(step[0].seq, step[-1].seq) for step in steps.values()]
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(ranges))


async def test_calls_are_settled_once_before_their_step_ends(events: list[Logged]) -> None:
    """EVT-057: each call before its settlement, every settlement before the end of the step."""
    calls = _of(events, "session.next.tool.called")
    assert len(calls) == 4
    for call in calls:
        key = (call.data["assistantMessageID"], call.data["callID"])
        (settled,) = [event for event in _settlements(events) if _key(event) == key]
        (ended,) = [event for event in _of(events, STEP + "ended") if event.data["assistantMessageID"] == key[0]]
        assert call.seq < settled.seq < ended.seq


async def test_a_boundary_promotes_before_its_step_starts(events: list[Logged]) -> None:
    """EVT-059 (context updates apart): the users of a boundary lie between the end of one step and the start of the
    next, and no step starts among them."""
    marks = [event for event in events if event.type in (STEP + "started", STEP + "ended", "session.next.prompted")]
    shown = "".join({"started": "(", "ended": ")"}.get(event.type.rpartition(".")[2], "p") for event in marks)
    assert shown == "p()ppp()()p()()p()"


async def test_message_order_is_event_order(runtime: Runtime, session: Session, events: list[Logged]) -> None:
    """EVT-057: a message stands where the event that made it stands."""
    made = [
        (event.data.get("messageID") or event.data["assistantMessageID"], event.seq)
        for event in events
        if event.type in ("session.next.prompted", STEP + "started")
    ]
    messages = await runtime.sessions.messages(session.id, order="asc", limit=100)
    assert [(message.id, message.seq) for message in messages] == made
    assert len(made) == 12
    assert await runtime.verify() == []


class Nothing(msgspec.Struct):
    pass


class Effects:
    """Tools under control: `slow` waits until `quick` has been settled; both look into the file when they start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.gate = asyncio.Event()
        self.recorded: list[bool] = []

    def tools(self) -> dict[str, Tool[Nothing, dict[str, str]]]:
        kind = dict[str, str]
        return {"slow": Tool("", Nothing, kind, self._slow), "quick": Tool("", Nothing, kind, self._quick)}

    async def _slow(self, given: Nothing, context: ToolContext) -> dict[str, str]:
        self._look(context)
        await self.gate.wait()
        return {"was": "slow"}

    async def _quick(self, given: Nothing, context: ToolContext) -> dict[str, str]:
        self._look(context)
        return {"was": "quick"}

    def _look(self, context: ToolContext) -> None:
        found = raw(
            self.path,
            "select 1 from event where type = 'session.next.tool.called.1' and aggregate_id = ?"
            " and data ->> '$.callID' = ? and data ->> '$.assistantMessageID' = ?",
            (context.session_id, context.tool_call_id, context.assistant_message_id),
        )
        self.recorded.append(bool(found))


async def test_tools_start_after_their_record_and_settle_in_completion_order(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """EVT-057, EVT-058: the call is on disk before any side effect; settlements come in completion order, content
    items in start order."""
    model._turns = [Turn(calls=(Call(tool="slow", input={}), Call(tool="quick", input={}))), Turn(text="done")]
    effects = Effects(runtime.paths.database)
    async with runtime.locations.use(session.location) as services:
        services.tools.register(effects.tools(), Scope())
    settled = runtime.log.bus.subscribe(frozenset({"session.next.tool.success"}))
    await _prompt(runtime, session, "go", "steer")
    async with asyncio.timeout(5):
        (first,) = await settled.next()
    assert msgspec.json.decode(first.wire)["data"]["structured"] == {"was": "quick"}
    effects.gate.set()
    await runtime.sessions.wait(session.id)
    assert effects.recorded == [True, True]
    order = [event.data["structured"]["was"] for event in _settlements(await _events(runtime, session))]
    assert order == ["quick", "slow"]
    _, assistant, _ = [item.decode() for item in await runtime.sessions.messages(session.id, order="asc", limit=9)]
    content = getattr(assistant, "content", ())
    assert [item.name for item in content if isinstance(item, ToolPart)] == ["slow", "quick"]
    assert all(isinstance(item.state, ToolCompleted) for item in content)


async def test_a_receipt_means_committed(runtime: Runtime, session: Session) -> None:
    """EVT-060: when `prompt` has returned, another program finds the admission in the file."""
    receipt = await runtime.sessions.prompt(session.id, Prompt(text="hi"), resume=False)
    assert raw(runtime.paths.database, "select admitted_seq, promoted_seq from session_input") == [
        (receipt.admitted_seq, None)
    ]
    assert await runtime.sessions.active() == []


async def test_no_wake_is_lost_at_the_end_of_a_drain(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """EVT-060: a prompt that lands anywhere around the end of a drain is answered by it or by the next one."""
    model._turns = []
    for pause in range(40):
        before = len(model.requests)
        await _prompt(runtime, session, f"first {pause}", "steer")
        await model.seen(before + 1)
        for _ in range(pause):
            await asyncio.sleep(0)
        await _prompt(runtime, session, f"second {pause}", "queue" if pause % 2 else "steer")
        async with asyncio.timeout(10):
            await runtime.sessions.wait(session.id)
        assert await runtime.store.waiting(session.id) == frozenset()
    texts = [event.data["prompt"]["text"] for event in _of(await _events(runtime, session), "session.next.prompted")]
    assert texts == [f"{which} {pause}" for pause in range(40) for which in ("first", "second")]


async def _prompt(runtime: Runtime, session: Session, text: str, delivery: Delivery) -> None:
    await runtime.sessions.prompt(session.id, Prompt(text=text), delivery=delivery)


async def _events(runtime: Runtime, session: Session) -> list[Logged]:
    stored = await runtime.log.serialized(session.id, limit=10_000)
    return [Logged(event.seq, event.type.rpartition(".")[0], msgspec.json.decode(event.data)) for event in stored]


def _of(events: list[Logged], type_: str) -> list[Logged]:
    return [event for event in events if event.type == type_]


def _settlements(events: list[Logged]) -> list[Logged]:
    return [event for event in events if event.type in ("session.next.tool.success", "session.next.tool.failed")]


def _key(event: Logged) -> tuple[str, str]:
    return event.data["assistantMessageID"], event.data["callID"]
