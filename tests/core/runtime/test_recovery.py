"""After a crash: what was left open is told as it is, nothing is repeated, and a person or a policy decides."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ManualClock
from tests.core.conftest import HeldTool, announced, event_types, messages, new_session, tables
from tests.core.session.support_lab import (
    LAB,
    Lab,
    Provider,
    Reply,
    calls,
    contents,
    crashed,
    fragment,
    live,
    overflows,
    recorded,
    refuses,
    says,
    tool,
    until,
)
from tests.llm.support import chunk, sse

from holdfast.core.runner.settings import Limits, SessionSettings
from holdfast.core.session.activity import RecoveryPolicy
from holdfast.llm.errors import LLMError
from holdfast.llm.route.retry import RetryLimits
from holdfast.schema.prompt import Prompt
from holdfast.schema.session_message import AssistantMessage, ToolCompleted, ToolError, ToolPart

pytestmark = pytest.mark.anyio

LONG = "word " * 400


async def stuck(folder: Path, where: str) -> str:
    """A Session whose process died: before the first byte, in the middle of an answer, or while a tool ran."""

    async def life() -> tuple[Lab, str]:
        held = HeldTool()
        reply = {
            "dispatched": says("never"),
            "answering": Reply([sse(chunk({"content": "partly"})), asyncio.Event()]),
            "tool": calls(("held", {}), text="calling"),
        }[where]
        provider = Provider(reply)
        if where == "dispatched":
            provider.hold(0)
        runtime = Lab(folder, provider, tools={"held": held.tool})
        await runtime.__aenter__()
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="hello"))
        await (held.started.wait() if where == "tool" else provider.seen(1))
        if where == "answering":
            await recorded(runtime, session.id, "text.started")
        return runtime, session.id

    return await crashed(life)


async def test_a_dispatch_is_on_disk_before_the_provider_is_called(tmp_path: Path) -> None:
    """SES-139: whoever looks at the moment of the request finds it recorded, for the retry after tools as well."""
    found: list[int] = []

    def look(body: dict[str, Any]) -> Reply:
        with tables(runtime) as sql:
            found.append(sql("select count(*) from event where type like '%turn.dispatched%'")[0][0])
        return calls(("t", {})) if len(found) < 3 else says("done")

    provider = Provider(look, look, look)
    async with Lab(tmp_path, provider, tools={"t": tool(lambda context: {})}) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="go"))
        await runtime.sessions.wait(session.id)
        assert found == [1, 2, 3]


@pytest.mark.parametrize(("where", "began"), [("dispatched", False), ("answering", True), ("tool", True)])
async def test_a_broken_turn_is_reported_and_nothing_happens_by_itself(tmp_path: Path, where: str, began: bool) -> None:
    """SES-139, SES-077, SES-138, SES-208: with the policy `ask` it is listed as interrupted, announced at the start of
    a server, and neither a wake nor that start sends anything."""
    session_id = await stuck(tmp_path, where)
    provider, asks = Provider(), {"holdfast": {"recovery": "ask"}}
    runtime = Lab(tmp_path, provider, tools={"held": HeldTool().tool}, config=asks)
    async with runtime, announced(runtime) as heard:
        (turn,) = await runtime.sessions.interrupted()
        assert (turn.session_id, turn.message_id is not None) == (session_id, began)
        await runtime.recovery.start()
        assert [item["sessionID"] for item in live(heard, "session.error")] == [session_id]
        await runtime.sessions.wake(session_id)
        await runtime.sessions.wait(session_id)
        assert provider.requests == []
        assert [turn.session_id for turn in await runtime.sessions.interrupted()] == [session_id]


@pytest.mark.parametrize("where", ["dispatched", "answering", "tool"])
@pytest.mark.parametrize("decision", ["continue", "abandon"])
async def test_an_unfinished_turn_is_continued_or_abandoned_by_a_person(
    tmp_path: Path, where: str, decision: Any
) -> None:
    """SES-139, SES-137: continuing runs from history, abandoning only closes what broke off; the lost call is failed,
    not run again, and either way nothing stays open."""
    session_id = await stuck(tmp_path, where)
    held, provider = HeldTool(), Provider()
    async with Lab(tmp_path, provider, tools={"held": held.tool}) as runtime:
        await runtime.sessions.recover(session_id, decision)
        await asyncio.sleep(0)
        await runtime.sessions.wait(session_id)
        assert len(provider.requests) == (1 if decision == "continue" else 0)
        assert await runtime.sessions.interrupted() == []
        assert held.runs == 0
        types = await event_types(runtime, session_id)
        assert types.count("turn.dispatched") == types.count("step.ended") + types.count("step.failed") + types.count(
            "turn.abandoned"
        )
        if where == "tool":
            answer = (await messages(runtime, session_id))[1]
            assert isinstance(answer, AssistantMessage)
            part = answer.content[-1]
            assert isinstance(part, ToolPart)
            assert isinstance(part.state, ToolError)
            assert part.state.error.message == "Tool execution interrupted"
        assert await runtime.verify() == []


async def test_abandoning_what_somebody_just_took_is_left_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-139, SES-078: a drain that was a moment faster closes what broke off itself; nobody hears of the race."""
    session_id = await stuck(tmp_path, "answering")
    async with Lab(tmp_path, Provider()) as runtime:
        acquire = runtime._ownership.acquire

        async def late(*given: Any) -> Any:
            lease = await acquire(*given)
            with tables(runtime) as sql:
                sql("update session_lease set owner_id = null, token = token + 1")
            return lease

        monkeypatch.setattr(runtime._ownership, "acquire", late)
        await runtime.execution.abandon(session_id)
        assert [turn.session_id for turn in await runtime.sessions.interrupted()] == [session_id]


async def test_a_location_that_cannot_be_opened_keeps_no_server_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """SES-139, SES-077: its turn is shown and stays open; a person may still decide."""
    session_id = await stuck(tmp_path, "dispatched")
    runtime = Lab(tmp_path, Provider())

    async def broken(location: object) -> RecoveryPolicy:
        raise RuntimeError("no such place")

    monkeypatch.setattr(runtime, "_recovery_policy", broken)
    async with runtime:
        await runtime.recovery.start()
        assert [turn.session_id for turn in await runtime.sessions.interrupted()] == [session_id]
    assert "no such place" in caplog.text


async def test_the_policy_and_the_limits_are_configurable(tmp_path: Path) -> None:
    """SES-139, SES-116, SES-142, SES-086: a configuration file can set them."""
    own = {"recovery": "abandon", "running_calls": 2, "calls": 3, "repeated_calls": 4, "turns": 5}
    async with Lab(tmp_path, Provider(), config={"holdfast": own}) as runtime:
        async with runtime.locations.use(runtime.location) as services:
            found = services.runner._services.here.settings()
        assert (found.recovery, found.turns) == ("abandon", 5)
        assert (found.limits.running_calls, found.limits.calls, found.limits.repeated_calls) == (2, 3, 4)


async def test_a_lost_wake_is_woken_and_what_was_only_kept_is_not(tmp_path: Path) -> None:
    """SES-077: prompts whose wake died with the process start; those admitted without one, or held back by an
    interruption, wait for a word."""

    async def life() -> tuple[Lab, list[str]]:
        provider = Provider(says("never"))
        provider.hold(0)
        runtime = Lab(tmp_path, provider)
        await runtime.__aenter__()
        lost, kept, stopped = [(await new_session(runtime, model=LAB)).id for _ in range(3)]
        await runtime.sessions.prompt(stopped, Prompt(text="first"))
        await provider.seen(1)
        await runtime.sessions.prompt(stopped, Prompt(text="queued"), delivery="queue")
        await runtime.sessions.interrupt(stopped)
        await runtime.sessions.prompt(kept, Prompt(text="kept"), resume=False)
        runtime.execution.wake = lambda session_id: None  # type: ignore[method-assign]
        await runtime.sessions.prompt(lost, Prompt(text="lost"))
        return runtime, [lost, kept, stopped]

    sessions = await crashed(life)
    again = Provider()
    async with Lab(tmp_path, again) as runtime:
        await runtime.recovery.start()
        for session_id in sessions:
            await runtime.sessions.wait(session_id)
        assert [contents(request) for request in again.requests] == [["lost"]]
        assert [len(await runtime.sessions.pending(item)) for item in sessions] == [0, 1, 1]


async def test_a_half_received_call_is_failed_by_the_next_drain(tmp_path: Path) -> None:
    """SES-134, SES-137: after a raw failure it stays pending; the next drain fails it, with empty input."""
    provider = Provider(Reply([fragment(0, '{"a', id="c", tool="t")]), says("after"))
    async with Lab(tmp_path, provider, tools={"t": tool(lambda context: {})}) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="go"), resume=False)
        with pytest.raises(LLMError):
            await runtime.sessions.run(session.id)
        assert await _states(runtime, session.id) == ["pending"]
        await runtime.sessions.run(session.id)
        assert await _states(runtime, session.id) == ["error"]
        types = await event_types(runtime, session.id)
        assert types.count("tool.failed") == 1
        assert await runtime.verify() == []


async def _states(runtime: Lab, session_id: str) -> list[str]:
    return [
        part.state.__struct_config__.tag  # type: ignore[misc]
        for item in await messages(runtime, session_id)
        if isinstance(item, AssistantMessage)
        for part in item.content
        if isinstance(part, ToolPart)
    ]


async def test_a_compaction_that_died_is_closed_by_the_next_drain(tmp_path: Path) -> None:
    """CMP-041, CMP-029: the mark is gone and the attempt has its end."""
    config = {"compaction": {"keep": {"tokens": 0}}}
    limit = {"context": 1_000_000, "output": 100}

    async def life() -> tuple[Lab, str]:
        provider = Provider(says("one"), overflows(), says("never"))
        provider.hold(2)
        runtime = Lab(tmp_path, provider, config=config, limit=limit)
        await runtime.__aenter__()
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text=LONG))
        await runtime.sessions.wait(session.id)
        await runtime.sessions.prompt(session.id, Prompt(text="second"))
        await provider.seen(3)
        return runtime, session.id

    session_id = await crashed(life)
    async with Lab(tmp_path, Provider(), config=config, limit=limit) as runtime:
        with tables(runtime) as sql:
            assert sql("select time_compacting from session")[0][0] is not None
            await runtime.sessions.run(session_id)
            assert sql("select time_compacting from session")[0][0] is None
        types = await event_types(runtime, session_id)
        assert types.count("compaction.started") == types.count("compaction.failed") == 1
        assert await runtime.sessions.interrupted() == []
        assert await runtime.verify() == []


async def test_a_compaction_by_hand_that_died_is_closed_by_the_next_drain(tmp_path: Path) -> None:
    """CMP-041, CMP-029: it owes no turn, so that nothing but its own events says that it is open."""
    config = {"compaction": {"keep": {"tokens": 0}}}

    async def life() -> tuple[Lab, str]:
        provider = Provider(says("one"), says("never"))
        provider.hold(1)
        runtime = Lab(tmp_path, provider, config=config)
        await runtime.__aenter__()
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text=LONG))
        await runtime.sessions.wait(session.id)
        compacting.append(asyncio.create_task(runtime.sessions.compact(session.id)))
        await provider.seen(2)
        return runtime, session.id

    compacting: list[asyncio.Task[None]] = []
    session_id = await crashed(life)
    async with Lab(tmp_path, Provider(), config=config) as runtime:
        await runtime.sessions.run(session_id)
        types = await event_types(runtime, session_id)
        attempt = [type for type in types if type.startswith("compaction.")]
        assert attempt == ["compaction.started", "compaction.failed"]
        with tables(runtime) as sql:
            assert sql("select time_compacting from session")[0][0] is None
        assert await runtime.verify() == []


async def test_the_other_calls_of_a_step_that_waits_for_a_person_are_closed(tmp_path: Path) -> None:
    """SES-137, SES-250: of two open calls, one waits for an answer over a restart; the other one ran when its process
    died. The answer is carried out, and the other call is settled as interrupted before the model is asked."""
    question = {"question": "Which?", "header": "h", "options": [{"label": "a", "description": "a"}]}

    async def life() -> tuple[Lab, str]:
        held = HeldTool()
        provider = Provider(calls(("question", {"questions": [question]}), ("held", {})))
        runtime = Lab(tmp_path, provider, tools={"held": held.tool})
        await runtime.__aenter__()
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="go"))
        await held.started.wait()
        await recorded(runtime, session.id, "question.asked")
        return runtime, session.id

    session_id = await crashed(life)
    held, provider = HeldTool(), Provider()
    async with Lab(tmp_path, provider, tools={"held": held.tool}) as runtime:
        (request,) = [found for found in await runtime.open_requests.list() if found.kind == "question"]
        async with runtime.locations.use(runtime.location) as services:
            await services.questions.reply(session_id, request.id, [["a"]])
        await runtime.sessions.wait(session_id)
        step = next(item for item in await messages(runtime, session_id) if isinstance(item, AssistantMessage))
        states = {part.name: part.state for part in step.content if isinstance(part, ToolPart)}
        assert isinstance(states["held"], ToolError), "the call that ran has no settlement"
        assert states["held"].error.message == "Tool execution interrupted"
        assert isinstance(states["question"], ToolCompleted)
        assert held.runs == 0
        assert len(provider.requests) == 1
        assert await runtime.sessions.interrupted() == []
        assert await runtime.verify() == []


# -- retries and status ----------------------------------------------------------------------------------------------


async def test_retries_are_bounded_durable_and_announced(tmp_path: Path) -> None:
    """SES-140, SES-076: before any output a retryable failure is tried again, recorded with its number, and the status
    says when; the drain is busy before and idle after."""
    provider = Provider(refuses("busy", 503), refuses("busy", 503), says("made it"))
    bounded = SessionSettings(limits=Limits(retry=RetryLimits(total_seconds=2)), snapshots=False)
    async with Lab(tmp_path, provider, clock=QuickClock(), settings=bounded) as runtime, announced(runtime) as heard:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="go"))
        await runtime.sessions.wait(session.id)
        states = [item["status"] for item in live(heard, "session.status")]
        assert [state["type"] for state in states] == ["busy", "retry", "busy", "retry", "busy", "idle"]
        assert [state["attempt"] for state in states[1:5:2]] == [1, 2]
        assert all(state["next"] > 0 and "busy" in state["message"] for state in states[1:5:2])
        assert (await event_types(runtime, session.id)).count("retried") == 2
        provider.replies[3:] = [refuses("busy", 503)] * 9
        await runtime.sessions.prompt(session.id, Prompt(text="again"), resume=False)
        with pytest.raises(LLMError):
            await runtime.sessions.run(session.id)
        assert len(provider.requests) == 6


async def test_nothing_is_retried_after_output(tmp_path: Path) -> None:
    """SES-140: a stream that broke off after its first text is a failure, not a retry."""
    broken = LLMError("Transport", "reset", retryable=True)
    provider = Provider(Reply([sse(chunk({"content": "partly"})), broken]), says("never"))
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="go"), resume=False)
        with pytest.raises(LLMError):
            await runtime.sessions.run(session.id)
        assert len(provider.requests) == 1
        assert "retried" not in await event_types(runtime, session.id)


class QuickClock(ManualClock):
    """Time passes as soon as somebody waits for it."""

    async def sleep(self, seconds: float) -> None:
        self.advance(round(seconds * 1000))


# -- waits -----------------------------------------------------------------------------------------------------------


async def test_every_wait_has_a_cause_an_age_and_an_end(tmp_path: Path) -> None:
    """SES-209: the provider's first byte, the rest of its answer, a named tool; read from what is recorded, so that
    another process sees the same and also who executes it; and nothing once it is idle."""
    gate = asyncio.Event()
    held, clock = HeldTool(), ManualClock()
    provider = Provider(Reply([sse(chunk({"content": "partly"})), gate, *calls(("held", {})).pieces]))
    first = provider.hold(0)
    async with (
        Lab(tmp_path, provider, tools={"held": held.tool}, clock=clock) as runtime,
        Lab(tmp_path, Provider(), clock=clock) as other,
    ):
        session = await new_session(runtime, model=LAB)
        assert await runtime.sessions.waits(session.id) == []
        await runtime.sessions.prompt(session.id, Prompt(text="go"))
        await provider.seen(1)
        (wait,) = await runtime.sessions.waits(session.id)
        assert (wait.kind, wait.since, "first byte" in wait.what, bool(wait.ends)) == (
            "provider",
            clock.now(),
            True,
            True,
        )
        assert [item.kind for item in await other.sessions.waits(session.id)] == ["provider", "owner"]
        first.set()
        await recorded(runtime, session.id, "text.started")
        (wait,) = await runtime.sessions.waits(session.id)
        assert (wait.kind, "first byte" in wait.what) == ("provider", False)
        gate.set()
        await held.started.wait()
        named = [item for item in await runtime.sessions.waits(session.id) if item.kind == "tool"]
        assert [(item.what, item.id) for item in named] == [("tool held", "call_0")]
        held.go.set()
        await runtime.sessions.wait(session.id)
        assert await runtime.sessions.waits(session.id) == []


async def test_a_wait_for_a_person_is_shown(tmp_path: Path) -> None:
    """SES-209: a permission request says what is asked and that a person ends it."""
    config = {"permissions": [{"action": "webfetch", "resource": "*", "effect": "ask"}]}
    provider = Provider(calls(("webfetch", {"url": "http://127.0.0.1:9/x", "format": "text"})))
    async with Lab(tmp_path, provider, config=config) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="go"))

        async def asking() -> bool:
            return "permission" in [item.kind for item in await runtime.sessions.waits(session.id)]

        await until(asking)
        asked = [item for item in await runtime.sessions.waits(session.id) if item.kind == "permission"]
        assert len(asked) == 1
        assert "person" in asked[0].ends
        await runtime.sessions.interrupt(session.id)
        assert await runtime.sessions.waits(session.id) == []


def test_the_default_policy_is_safe() -> None:
    """SES-139: nobody said otherwise."""
    assert SessionSettings().recovery == "safe"
