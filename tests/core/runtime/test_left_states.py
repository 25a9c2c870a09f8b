"""Every state that a dead process can leave, with every policy: what each kind of host makes of it. No call is
repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.core.conftest import HeldTool, announced, event_types, messages, new_session
from tests.core.session.support_lab import (
    LAB,
    Lab,
    Piece,
    Provider,
    Reply,
    call,
    calls,
    crashed,
    fragment,
    live,
    recorded,
    tool,
    until,
)
from tests.llm.support import chunk, sse

from holdfast.core.database.unit import Statement, Unit
from holdfast.core.runner.drain import Drain
from holdfast.core.session.activity import HELD, MOST_ATTEMPTS, Activity, OpenTurn, RecoveryPolicy, decide
from holdfast.schema.codec import decode_any
from holdfast.schema.insight import UnsettledCall
from holdfast.schema.prompt import Prompt
from holdfast.schema.session_event import QuestionReplied
from holdfast.schema.session_message import AssistantMessage, ToolError, ToolPart

pytestmark = pytest.mark.anyio

POLICIES = ["ask", "safe", "always", "abandon"]
QUESTION = {"questions": [{"question": "Which?", "header": "h", "options": [{"label": "a", "description": "a"}]}]}
BUSY = Reply([b"{}"], status=503)


class State(NamedTuple):
    """How a process dies, and what becomes of its work with the policies in their order."""

    stage: str
    decisions: tuple[str, str, str, str]
    replies: Callable[[], list[Reply]]
    reached: Callable[[Lab, str, HeldTool, Provider], Awaitable[object]]
    calls: tuple[str, ...] = ()
    turns: int = 99
    """Before this turn the process hangs."""


def stalled(*pieces: Piece) -> list[Reply]:
    return [Reply([*pieces, asyncio.Event()])]


ANYWAY = ("continue", "continue", "continue", "continue")
AFTER_DISPATCH = ("person", "continue", "continue", "abandon")
UNKNOWN = ("person", "person", "continue", "abandon")
WAITING = ("wait", "wait", "wait", "wait")


def event(type: str) -> Callable[[Lab, str, HeldTool, Provider], Awaitable[object]]:
    return lambda runtime, session_id, held, provider: recorded(runtime, session_id, type)


async def began(runtime: Lab, session_id: str, held: HeldTool, provider: Provider) -> None:
    await held.started.wait()


async def two_recorded(runtime: Lab, session_id: str, held: HeldTool, provider: Provider) -> None:
    await held.started.wait()

    async def both() -> bool:
        return (await event_types(runtime, session_id)).count("tool.called") == 2

    await until(both)


async def sent(runtime: Lab, session_id: str, held: HeldTool, provider: Provider) -> None:
    await provider.seen(1)


async def asking(runtime: Lab, session_id: str, held: HeldTool, provider: Provider) -> None:
    await recorded(runtime, session_id, "question.asked")


STATES = {
    "promoted": State("promoted", ANYWAY, lambda: [], event("prompted"), turns=0),
    "between": State("between", ANYWAY, lambda: [calls(("quick", {}))], event("step.ended"), turns=1),
    "dispatched": State("dispatched", AFTER_DISPATCH, lambda: stalled(), sent),
    "retrying": State("dispatched", AFTER_DISPATCH, lambda: [BUSY], event("retried")),
    "streaming": State(
        "answering", AFTER_DISPATCH, lambda: stalled(sse(chunk({"content": "partly"}))), event("text.started")
    ),
    "call being written": State(
        "answering",
        AFTER_DISPATCH,
        lambda: stalled(fragment(0, '{"a', id="call_0", tool="held")),
        event("tool.input.started"),
    ),
    "call settled": State(
        "answering",
        AFTER_DISPATCH,
        lambda: stalled(call(0, "quick"), call(1, "quick")),
        event("tool.success"),
    ),
    "call running": State("answering", UNKNOWN, lambda: [calls(("held", {}))], began, calls=("held",)),
    "call recorded": State(
        "answering", UNKNOWN, lambda: [calls(("held", {}), ("held", {}))], two_recorded, calls=("held", "held")
    ),
    "waiting for a person": State("waiting", WAITING, lambda: [calls(("question", QUESTION))], asking),
}


async def left(folder: Path, state: State, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Session whose process died in this state."""
    turns = Drain._turn

    async def turn(drain: Drain, ready: Any) -> bool:
        drain._taken = getattr(drain, "_taken", -1) + 1  # type: ignore[attr-defined]
        if drain._taken >= state.turns:  # type: ignore[attr-defined]
            await asyncio.Event().wait()
        return await turns(drain, ready)

    async def life() -> tuple[Lab, str]:
        held, provider = HeldTool(), Provider(*state.replies())
        if state.stage == "dispatched" and provider.replies[0] is not BUSY:
            provider.hold(0)
        runtime = Lab(
            folder,
            provider,
            tools={"held": held.tool, "quick": tool(lambda context: {})},
            config={"holdfast": {"running_calls": 1}},
        )
        await runtime.__aenter__()
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="hello"))
        await state.reached(runtime, session.id, held, provider)
        return runtime, session.id

    with monkeypatch.context() as patch:
        patch.setattr(Drain, "_turn", turn)
        return await crashed(life)


async def decisions(runtime: Lab, session_id: str) -> list[dict[str, Any]]:
    stored = await runtime.log.serialized(session_id, limit=10_000)
    return [decode_any(item.data) for item in stored if "recovery.decided" in item.type]


async def by_start(runtime: Lab, session_id: str) -> None:
    await runtime.recovery.start()


async def by_node(runtime: Lab, session_id: str) -> None:
    await runtime.recovery.take_over({session_id}, lambda id: True, first=True)


async def by_name(runtime: Lab, session_id: str) -> None:
    await runtime.sessions.recover(session_id, "policy")


async def settled(runtime: Lab, session_id: str) -> None:
    async def ended() -> bool:
        return not runtime.recovery._continuing._tasks and not runtime.execution.here(session_id)

    await until(ended)


HOSTS = {"a new server": by_start, "another node": by_node, "a command that names it": by_name}


@pytest.mark.parametrize("who", HOSTS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", STATES)
async def test_each_state_is_decided_as_the_policy_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, policy: str, who: str
) -> None:
    """SES-139, SES-253, SES-450..453: the decision is recorded once, no call is executed again, and the person who is
    asked sees the calls whose outcome is unknown."""
    state = STATES[name]
    session_id = await left(tmp_path, state, monkeypatch)
    held, quick, provider = HeldTool(), HeldTool(), Provider()
    runtime = Lab(
        tmp_path,
        provider,
        tools={"held": held.tool, "quick": quick.tool},
        config={"holdfast": {"recovery": policy, "titles": False}},
    )
    decision = state.decisions[POLICIES.index(policy)]
    async with runtime, announced(runtime) as heard:
        (status,) = await runtime.sessions.interrupted()
        assert (status.stage, status.decision) == (state.stage, False)
        assert [one.tool for one in status.calls] == list(state.calls)
        assert await runtime.open_requests.list() == [] or decision == "wait"
        for host in (HOSTS[who], by_node):
            await host(runtime, session_id)
            await settled(runtime, session_id)
        recorded_decisions = [one["decision"] for one in await decisions(runtime, session_id)]
        assert recorded_decisions == ([] if decision == "wait" else [decision])
        assert len(provider.requests) == (1 if decision == "continue" else 0)
        assert (held.runs, quick.runs) == (0, 0)
        after = await runtime.sessions.interrupted()
        assert len(after) == (1 if decision in ("person", "wait") else 0)
        if decision == "person":
            assert after[0].decision
            (card,) = await runtime.open_requests.list()
            assert card.activity is not None
            assert [one.tool for one in card.activity.calls] == list(state.calls)
            (wait,) = await runtime.sessions.waits(session_id)
            assert (wait.kind, [one.tool for one in wait.calls]) == ("recovery", list(state.calls))
            assert all(tool in wait.what for tool in state.calls)
            assert live(heard, "session.error")
        elif decision != "wait":
            assert await failed_calls(runtime, session_id) == ["Tool execution interrupted"] * (
                len(state.calls) or name.startswith("call ")
            )
        assert await runtime.verify() == []


async def failed_calls(runtime: Lab, session_id: str) -> list[str]:
    answers = [item for item in await messages(runtime, session_id) if isinstance(item, AssistantMessage)]
    parts = [part for answer in answers for part in answer.content if isinstance(part, ToolPart)]
    return [part.state.error.message for part in parts if isinstance(part.state, ToolError)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", STATES)
async def test_nothing_happens_where_nobody_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, policy: str
) -> None:
    """API-436, SES-454: a host that does not recover starts nothing and ends nothing, with input pending too: neither
    by waiting nor by reading."""
    state = STATES[name]
    session_id = await left(tmp_path, state, monkeypatch)
    held, provider = HeldTool(), Provider()
    runtime = Lab(tmp_path, provider, tools={"held": held.tool}, config={"holdfast": {"recovery": policy}})
    async with runtime:
        session = await runtime.sessions.get(session_id)
        nothing = asyncio.sleep(0)
        await runtime._inbox.admit(
            session_id,
            Prompt(text="steer"),
            id=None,
            delivery="steer",
            location=session.location,
            wake=True,
            first=lambda: nothing,
        )
        before = await event_types(runtime, session_id)
        monkeypatch.setattr("holdfast.core.runtime.execution.START_SECONDS", 0.05)
        await runtime.sessions.wait(session_id)
        await runtime.sessions.outcome(session_id)
        await runtime.sessions.waits(session_id)
        await runtime.sessions.context(session_id)
        await runtime.open_requests.list()
        assert await event_types(runtime, session_id) == before
        assert (provider.requests, held.runs) == ([], 0)


@pytest.mark.parametrize(
    ("stage", "policy", "decision"),
    [
        ({"turn": True, "delegates": True}, "ask", "continue"),
        ({"turn": True, "delegates": True, "calls": True}, "safe", "person"),
        ({"turn": True, "delegates": True, "calls": True}, "always", "continue"),
        ({"turn": True, "suspended": True}, "ask", "continue"),
        ({"turn": True, "attempts": MOST_ATTEMPTS}, "always", "person"),
        ({"turn": True, "attempts": MOST_ATTEMPTS}, "abandon", "abandon"),
        ({"attempts": MOST_ATTEMPTS}, "abandon", "person"),
        ({"turn": True, "attempts": HELD}, "abandon", "person"),
        ({"turn": True, "asks": True, "calls": True}, "abandon", "wait"),
    ],
)
def test_decisions_about_combined_states(stage: dict[str, Any], policy: RecoveryPolicy, decision: str) -> None:
    """SES-139, SES-260: waiting for a child continues by itself only where no other call has an unknown outcome, and
    the tries are limited under every policy."""
    turn = OpenTurn("build", LAB, 1, "msg_1", 1) if stage.get("turn") else None
    plain: dict[str, Any] = {"suspended": False, "asks": False, "delegates": False, "attempts": 0}
    calls = (UnsettledCall(id="call_1", tool="bash", command="make"),) if stage.get("calls") else ()
    work = Activity(
        session_id="ses_1",
        seq=1,
        since=1,
        compacting=False,
        between=False,
        **{**plain, **stage, "turn": turn, "calls": calls},
    )
    assert decide(work, policy) == decision


async def test_work_that_ends_its_process_is_tried_three_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-260: every way of continuing counts, whatever the policy; then a person decides."""
    session_id = await left(tmp_path, STATES["streaming"], monkeypatch)
    async with Lab(tmp_path, Provider()) as runtime:
        count = Statement("attempt.count", {"session_id": session_id})
        for _ in range(MOST_ATTEMPTS):
            await runtime.database.submit(Unit(session_id, local=(count,)))
        await runtime.recovery.start()
        (status,) = await runtime.sessions.interrupted()
        assert status.decision
        assert f"tried {MOST_ATTEMPTS} times" in status.next


@pytest.mark.parametrize("way", ["interrupt", "move"])
async def test_an_answer_that_nobody_has_acted_on_is_void_after_an_interruption_or_a_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """SES-455: the process that was given the answer died before it executed the call."""
    session_id = await left(tmp_path, STATES["waiting for a person"], monkeypatch)
    provider = Provider()
    (tmp_path / "project" / "below").mkdir(exist_ok=True)
    async with Lab(tmp_path, provider) as runtime:
        session = await runtime.sessions.get(session_id)
        (request,) = await runtime.open_requests.list()
        replied = QuestionReplied(timestamp=1, session_id=session_id, request_id=request.id, answers=(("a",),))
        await runtime.log.publish(replied, location=session.location)
        if way == "interrupt":
            await runtime.sessions.interrupt(session_id)
        else:
            await runtime.sessions.move(session_id, str(tmp_path / "project" / "below"))
        await runtime.recovery.start()
        await settled(runtime, session_id)
        assert await runtime.sessions.interrupted() == []
        assert provider.requests == []
        assert await failed_calls(runtime, session_id) == ["Tool execution interrupted"]
        assert runtime.locations.opened() == () or way == "move"
        assert await runtime.verify() == []
