"""In what order a drain does things: promotion, turns, tools, the end of a step; and what bounds all of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import HeldTool, event_types, messages, new_session, tables, user_texts
from tests.core.session.support_lab import (
    CLAUDE,
    CLAUDE_END,
    LAB,
    OTHER,
    Lab,
    Provider,
    Reply,
    calls,
    claude_answer,
    claude_call,
    claude_error,
    claude_text,
    contents,
    ending,
    error_event,
    fragment,
    recorded,
    refuses,
    roles,
    says,
    tool,
)

from holdfast.core.catalog.errors import ModelUnavailable
from holdfast.core.permission.errors import TurnEnded
from holdfast.core.runner import session_cache
from holdfast.core.runner.settings import Limits, SessionSettings
from holdfast.core.session import inbox, stored_start
from holdfast.core.session.errors import (
    AgentUnavailable,
    Interrupted,
    RepeatedCalls,
    SessionNotFound,
    TurnLimitReached,
)
from holdfast.core.session.input_errors import InboxFull, InputNotFound, InputNotPending
from holdfast.llm.errors import LLMError
from holdfast.llm.route.retry import RetryLimits
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.schema.session_message import AssistantMessage, ToolPart

pytestmark = pytest.mark.anyio


def nothing(context: object) -> dict[str, Any]:
    return {}


def settings(turns: int | None = None, **limits: Any) -> SessionSettings:
    return SessionSettings(limits=Limits(**limits), snapshots=False, turns=turns)


async def say(runtime: Lab, session_id: str, text: str, **options: Any) -> None:
    await runtime.sessions.prompt(session_id, Prompt(text=text), **options)


async def answers(runtime: Lab, session_id: str) -> list[AssistantMessage]:
    return [item for item in await messages(runtime, session_id) if isinstance(item, AssistantMessage)]


async def parts(runtime: Lab, session_id: str) -> list[ToolPart]:
    found = [part for item in await answers(runtime, session_id) for part in item.content]
    return [part for part in found if isinstance(part, ToolPart)]


def outcome(part: ToolPart) -> str:
    state: Any = part.state
    return state.error.message if hasattr(state, "error") else type(state).__name__


# -- promotion -------------------------------------------------------------------------------------------------------


async def test_queued_inputs_wait_and_steers_join(tmp_path: Path) -> None:
    """SES-056, SES-087, SES-088, SES-053, SES-051: the example of the rule, four requests."""
    provider = Provider()
    first, second = provider.hold(0), provider.hold(1)
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "start")
        await provider.seen(1)
        await say(runtime, session.id, "A", delivery="queue")
        await say(runtime, session.id, "B", delivery="queue")
        first.set()
        await provider.seen(2)
        await say(runtime, session.id, "S1")
        await say(runtime, session.id, "S2")
        second.set()
        await runtime.sessions.wait(session.id)
        assert [user_texts(request) for request in provider.requests] == [
            ["start"],
            ["start", "A"],
            ["start", "A", "S1", "S2"],
            ["start", "A", "S1", "S2", "B"],
        ]


async def test_a_queued_input_waits_for_the_continuation(tmp_path: Path) -> None:
    """SES-087, SES-089, SES-053, SES-055: tools first; at the start of a drain a steer goes before what is queued."""
    provider = Provider(calls(("t", {})), calls(("t", {})), says("end"), says("queued"))
    async with Lab(tmp_path, provider, tools={"t": tool(nothing)}) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "queued", delivery="queue", resume=False)
        await say(runtime, session.id, "steer")
        await runtime.sessions.wait(session.id)
        assert [user_texts(request)[-1] for request in provider.requests] == ["steer"] * 3 + ["queued"]


@pytest.mark.parametrize(
    ("selection", "error"),
    [({"agent": "nobody"}, AgentUnavailable), ({"model": ModelRef(id="x", provider_id="lab2")}, ModelUnavailable)],
    ids=["agent", "model"],
)
async def test_a_bad_selection_leaves_the_input_pending(
    tmp_path: Path, selection: dict[str, Any], error: type[Exception]
) -> None:
    """SES-025, SES-094, SES-090: recorded as asked, refused before promotion and before any request; nothing begins."""
    provider = Provider()
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, **{"model": LAB, **selection})
        await say(runtime, session.id, "hello", resume=False)
        with pytest.raises(error):
            await runtime.sessions.run(session.id)
        assert provider.requests == []
        assert len(await runtime.sessions.pending(session.id)) == 1
        assert await runtime.sessions.interrupted() == []
        with tables(runtime) as sql:
            assert sql("select count(*) from session_context_epoch") == [(0,)]
        await runtime.sessions.switch_agent(session.id, "build")
        await runtime.sessions.switch_model(session.id, LAB)
        await runtime.sessions.wait(session.id)
        await runtime.sessions.run(session.id)
        assert user_texts(provider.requests[0]) == ["hello"]


async def test_a_switch_counts_from_the_next_turn(tmp_path: Path) -> None:
    """SES-021, SES-022, SES-023, SES-091, SES-153, SES-195: the running turn goes on with what it sampled, the history
    stays; the same agent is recorded again, the same model is not."""
    provider = Provider(calls(("t", {})), says("end"))
    gate = provider.hold(0)
    async with Lab(tmp_path, provider, tools={"t": tool(nothing)}) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "hello")
        await provider.seen(1)
        await runtime.sessions.switch_model(session.id, OTHER)
        await runtime.sessions.switch_model(session.id, ModelRef(id="other", provider_id="lab", variant="default"))
        for _ in range(2):
            await runtime.sessions.switch_agent(session.id, "quick")
        gate.set()
        await runtime.sessions.wait(session.id)
        assert [request["model"] for request in provider.requests] == ["m", "other"]
        found = await answers(runtime, session.id)
        assert [(item.agent, item.model.id) for item in found] == [("build", "m"), ("quick", "other")]
        types = await event_types(runtime, session.id)
        assert (types.count("agent.switched"), types.count("model.switched")) == (2, 1)
        now = await runtime.sessions.get(session.id)
        assert (now.agent, now.model and now.model.id) == ("quick", "other")
        assert user_texts(provider.requests[1])[0] == "hello"
        with pytest.raises(SessionNotFound):
            await runtime.sessions.switch_agent("ses_none", "build")


async def test_later_context_follows_the_inputs(tmp_path: Path) -> None:
    """SES-093, SES-154, EVT-059: prompt, prompt, changed context: the update comes after both, before the step."""
    provider = Provider()
    async with Lab(tmp_path, provider) as runtime:
        rules = runtime.directory / "AGENTS.md"
        rules.write_text("ONE\n", encoding="utf-8")
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "first")
        await runtime.sessions.wait(session.id)
        rules.write_text("TWO\n", encoding="utf-8")
        await say(runtime, session.id, "a", resume=False)
        await say(runtime, session.id, "b")
        await runtime.sessions.wait(session.id)
        types = await event_types(runtime, session.id)
        update = types.index("context.updated")
        assert types[update - 2 : update] == ["prompted", "prompted"]
        assert types.index("step.started", update) > update
        tail = str(provider.requests[1]["messages"][-2:])
        assert tail.index("TWO") > tail.index("b")


# -- allowance -------------------------------------------------------------------------------------------------------


def steps(count: int) -> dict[str, Any]:
    return {"agents": {"quick": {"mode": "all", "steps": count}}}


@pytest.mark.parametrize("count", [1, 3])
async def test_the_last_step_has_no_tools(tmp_path: Path, count: int) -> None:
    """SES-080, SES-081, SES-083, SES-084, SES-089, LLM-234, LLM-385, SES-210: the nth turn is the last; it gets no
    tools and a notice that is kept nowhere and is no prefill; a call all the same is failed and nothing follows."""
    ran: list[object] = []
    provider = Provider(*[calls(("t", {}))] * 10)
    async with Lab(tmp_path, provider, tools={"t": tool(ran.append)}, config=steps(count)) as runtime:
        session = await new_session(runtime, model=LAB, agent="quick")
        await say(runtime, session.id, "go")
        await runtime.sessions.wait(session.id)
        assert ["tools" in request for request in provider.requests] == [True] * (count - 1) + [False]
        assert len(ran) == count - 1
        assert outcome((await parts(runtime, session.id))[-1]) == "Tools are disabled after the maximum agent steps"
        last = provider.requests[-1]["messages"][-1]
        assert last["role"] != "assistant"
        assert "step limit" in str(last["content"])
        assert "step limit" not in str(await messages(runtime, session.id))
        provider.replies[count:] = [says("end")]
        await say(runtime, session.id, "more")
        await runtime.sessions.wait(session.id)
        assert "step limit" not in str(provider.requests[count]["messages"][:-1])


async def test_any_input_opens_a_new_window(tmp_path: Path) -> None:
    """SES-082, SES-081, CAT-070: steers in the middle start the count anew, a batch as one; a queued input does too."""
    held = HeldTool()
    provider = Provider(calls(("held", {})), calls(("t", {})), says("last"), calls(("t", {})), says("last"))
    tools = {"held": held.tool, "t": tool(nothing)}
    async with Lab(tmp_path, provider, tools=tools, config=steps(2)) as runtime:
        session = await new_session(runtime, model=LAB, agent="quick")
        await say(runtime, session.id, "go")
        await held.started.wait()
        for text in ("one", "two"):
            await say(runtime, session.id, text)
        await say(runtime, session.id, "queued", delivery="queue")
        held.go.set()
        await runtime.sessions.wait(session.id)
        assert ["tools" in request for request in provider.requests] == [True, True, False, True, False]


@pytest.mark.parametrize(
    ("package", "listed"),
    [
        ("@ai-sdk/openai-compatible", False),
        ("@ai-sdk/openai", False),
        ("@ai-sdk/anthropic", True),
        ("@ai-sdk/google", None),
    ],
)
async def test_the_notice_is_no_prefill_anywhere(tmp_path: Path, package: str, listed: bool | None) -> None:
    """LLM-234, LLM-385, SES-083: whatever the protocol, the request does not end with an assistant's words."""
    provider = Provider(*[refuses("no")] * 3)
    api = {"type": "aisdk", "package": package, "url": "http://lab.invalid/v1", "settings": {"apiKey": "k"}}
    config = {**steps(1), "providers": {"p": {"api": api, "models": {"m": {}}}}}
    async with Lab(tmp_path, provider, config=config) as runtime:
        session = await new_session(runtime, model=ModelRef(id="m", provider_id="p"), agent="quick")
        await say(runtime, session.id, "go", resume=False)
        with pytest.raises(LLMError):
            await runtime.sessions.run(session.id)
        (sent,) = provider.requests
        turns: list[dict[str, Any]] = next(sent[key] for key in ("messages", "input", "contents") if key in sent)
        assert turns[-1].get("role") in ("user", "system", "developer")
        assert "step limit" in str(turns[-1])
        assert not sent.get("tools") or sent.get("tool_choice") in ("none", {"type": "none"})
        assert listed is not False or not sent.get("tools")


@pytest.mark.parametrize(("turns", "fails"), [(2, True), (3, False)])
async def test_exceeding_the_safety_cap_with_work_left_fails_the_drain(tmp_path: Path, turns: int, fails: bool) -> None:
    """SES-086: exceeding it with work left is a typed failure, reaching it exactly is success; off unless set."""
    provider = Provider(calls(("t", {})), calls(("t", {})), says("end"))
    async with Lab(tmp_path, provider, tools={"t": tool(nothing)}, settings=settings(turns)) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go", resume=False)
        if fails:
            with pytest.raises(TurnLimitReached):
                await runtime.sessions.run(session.id)
        else:
            await runtime.sessions.run(session.id)
        assert len(provider.requests) == turns
        assert SessionSettings().turns is None
        assert await runtime.sessions.interrupted() == []


# -- limits ----------------------------------------------------------------------------------------------------------


async def test_the_inbox_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-044: a full inbox refuses and writes nothing; steers over the batch wait for the next boundary."""
    monkeypatch.setattr(inbox, "PENDING_LIMIT", 3)
    for user in (stored_start, session_cache):
        monkeypatch.setattr(user, "STEER_BATCH", 2)
    provider = Provider()
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        for text in "abc":
            await say(runtime, session.id, text, resume=False)
        before = await event_types(runtime, session.id)
        with pytest.raises(InboxFull) as refused:
            await say(runtime, session.id, "d")
        assert (refused.value.session_id, refused.value.limit) == (session.id, 3)
        assert await event_types(runtime, session.id) == before
        await runtime.sessions.wake(session.id)
        await runtime.sessions.wait(session.id)
        assert [user_texts(request) for request in provider.requests] == [["a", "b"], ["a", "b", "c"]]


async def test_an_input_can_be_withdrawn_until_it_is_promoted(tmp_path: Path) -> None:
    """SES-045: listed, withdrawn durably, again is fine, promoted is a conflict, unknown is another; it never runs."""
    provider = Provider()
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        other = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "one", id="msg_one", resume=False)
        await say(runtime, session.id, "two", id="msg_two", resume=False)
        assert [item.id for item in await runtime.sessions.pending(session.id)] == ["msg_one", "msg_two"]
        with pytest.raises(InputNotFound):
            await runtime.sessions.withdraw(other.id, "msg_one")
        await runtime.sessions.withdraw(session.id, "msg_one")
        before = await event_types(runtime, session.id)
        assert before.count("input.withdrawn") == 1
        await runtime.sessions.withdraw(session.id, "msg_one")
        assert await event_types(runtime, session.id) == before
        await runtime.sessions.run(session.id)
        assert user_texts(provider.requests[0]) == ["two"]
        with pytest.raises(InputNotPending):
            await runtime.sessions.withdraw(session.id, "msg_two")
        with pytest.raises(InputNotFound):
            await runtime.sessions.withdraw(session.id, "msg_none")
        assert await runtime.verify() == []


async def test_calls_over_the_limits_wait_or_fail(tmp_path: Path) -> None:
    """SES-116, SES-115: so many at once, the rest in order; what is over the number per turn is recorded and failed."""
    now = most = 0
    two = asyncio.Event()

    async def work(context: object) -> dict[str, Any]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 2:
            two.set()
        await two.wait()
        for _ in range(5):  # time for a third, if there were one
            await asyncio.sleep(0)
        now -= 1
        return {}

    provider = Provider(calls(*[("t", {"n": number}) for number in range(7)]))
    async with Lab(tmp_path, provider, tools={"t": tool(work)}, settings=settings(running_calls=2, calls=5)) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go")
        await runtime.sessions.wait(session.id)
        found = [outcome(part) for part in await parts(runtime, session.id)]
        assert found[:5] == ["ToolCompleted"] * 5
        assert all("Too many tool calls" in message for message in found[5:])
        assert (len(found), most) == (7, 2)


async def test_all_calls_of_a_turn_run_at_once(tmp_path: Path) -> None:
    """SES-115, SES-113, SES-114, SES-107: five running together, all projected so; no request before all are settled,
    and the step ends after them."""
    started: list[object] = []
    gate, all_started = asyncio.Event(), asyncio.Event()

    async def work(context: object) -> dict[str, Any]:
        started.append(context)
        if len(started) == 5:
            all_started.set()
        await gate.wait()
        return {}

    provider = Provider(calls(*[("t", {"n": number}) for number in range(5)]))
    async with Lab(tmp_path, provider, tools={"t": tool(work)}) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go")
        async with asyncio.timeout(10):
            await all_started.wait()
        assert [type(part.state).__name__ for part in await parts(runtime, session.id)] == ["ToolRunning"] * 5
        assert len(provider.requests) == 1
        gate.set()
        await runtime.sessions.wait(session.id)
        types = await event_types(runtime, session.id)
        assert types.index("step.ended") > max(i for i, kind in enumerate(types) if kind == "tool.success")
        assert len(provider.requests) == 2


async def test_the_same_call_again_and_again_stops_the_drain(tmp_path: Path) -> None:
    """SES-142: at the count it is a durable reason and a typed failure; other calls, and new input, begin anew."""
    provider = Provider(*[calls(("t", {"a": 1, "b": 2}))] * 20)
    async with Lab(tmp_path, provider, tools={"t": tool(nothing)}, settings=settings(repeated_calls=5)) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go", resume=False)
        with pytest.raises(RepeatedCalls):
            await runtime.sessions.run(session.id)
        assert len(provider.requests) == 5
        assert "5" in outcome((await parts(runtime, session.id))[-1])
        await say(runtime, session.id, "again", resume=False)
        with pytest.raises(RepeatedCalls):
            await runtime.sessions.run(session.id)
        assert len(provider.requests) == 10
        assert await runtime.sessions.interrupted() == []


async def test_twenty_equal_reads_are_ordinary_work(tmp_path: Path) -> None:
    """SES-142: they do not trip it with the default count, and nobody is asked."""
    provider = Provider(*[calls(("read", {"path": "a.txt"}))] * 20, says("end"))
    async with Lab(tmp_path, provider) as runtime:
        (runtime.directory / "a.txt").write_text("a\n", encoding="utf-8")
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go")
        async with asyncio.timeout(20):
            await runtime.sessions.wait(session.id)
        assert len(provider.requests) == 21
        assert {outcome(part) for part in await parts(runtime, session.id)} == {"ToolCompleted"}


# -- tools and the end of a turn -------------------------------------------------------------------------------------


async def test_a_tool_starts_while_the_stream_goes_on_and_after_its_commit(tmp_path: Path) -> None:
    """SES-113, SES-098: the call is on disk when the tool begins, and the stream is still open."""
    seen: list[int] = []
    gate = asyncio.Event()

    def look(context: object) -> dict[str, Any]:
        with tables(runtime) as sql:
            seen.append(sql("select count(*) from event where type like '%tool.called%'")[0][0])
        gate.set()
        return {}

    provider = Provider(claude_answer(claude_call(0, "t"), gate, CLAUDE_END), claude_answer(CLAUDE_END))
    async with Lab(tmp_path, provider, tools={"t": tool(look)}) as runtime:
        session = await new_session(runtime, model=CLAUDE)
        await say(runtime, session.id, "go")
        async with asyncio.timeout(10):
            await runtime.sessions.wait(session.id)
        assert seen
        assert seen[0] >= 1


async def test_an_exception_in_a_tool_is_its_own_and_the_loop_goes_on(tmp_path: Path) -> None:
    """SES-121, SES-122: failed as such, the sibling succeeds, the model sees it."""

    def breaks(context: object) -> dict[str, Any]:
        raise RuntimeError("inner detail")

    provider = Provider(calls(("bad", {}), ("good", {})))
    async with Lab(tmp_path, provider, tools={"bad": tool(breaks), "good": tool(nothing)}) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go")
        await runtime.sessions.wait(session.id)
        bad, good = [outcome(part) for part in await parts(runtime, session.id)]
        assert bad.startswith("Tool execution failed: ")
        assert good == "ToolCompleted"
        assert "Tool execution failed" in contents(provider.requests[1], "tool")[0]


async def test_a_decline_stops_the_turn(tmp_path: Path) -> None:
    """SES-123, SES-136, SES-129: the others are cancelled, all unsettled calls fail, one end for the step, no request
    after it, and the drain ends as an interruption."""
    held = HeldTool()

    async def declined(context: object) -> dict[str, Any]:
        await held.started.wait()
        raise TurnEnded

    provider = Provider(calls(("held", {}), ("ask", {})))
    async with Lab(tmp_path, provider, tools={"held": held.tool, "ask": tool(declined)}) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go", resume=False)
        with pytest.raises(Interrupted):
            await runtime.sessions.run(session.id)
        assert [outcome(part) for part in await parts(runtime, session.id)] == ["Tool execution interrupted"] * 2
        types = await event_types(runtime, session.id)
        assert types.count("step.ended") + types.count("step.failed") == 1
        assert len(provider.requests) == 1
        assert held.cut.is_set()
        await say(runtime, session.id, "next")
        await runtime.sessions.wait(session.id)
        assert len(provider.requests) == 2
        assert await runtime.verify() == []


async def test_a_started_tool_is_recorded_before_the_failure_surfaces(tmp_path: Path) -> None:
    """SES-130, SES-111, SES-129, SES-134: the tool completes, then the step fails, then the error is raised as it was;
    an explicit run goes on from there."""
    held = HeldTool()
    broken = LLMError("Transport", "the line broke")
    provider = Provider(claude_answer(claude_call(0, "held"), broken), claude_answer(CLAUDE_END))
    async with Lab(tmp_path, provider, tools={"held": held.tool}) as runtime:
        session = await new_session(runtime, model=CLAUDE)
        await say(runtime, session.id, "go", resume=False)
        joined = asyncio.create_task(runtime.sessions.run(session.id))
        async with asyncio.timeout(5):
            await held.started.wait()
        held.go.set()
        with pytest.raises(LLMError, match="the line broke") as raised:
            await joined
        assert raised.value is broken
        (answer,) = await answers(runtime, session.id)
        assert outcome((await parts(runtime, session.id))[0]) == "ToolCompleted"
        assert (answer.finish, answer.error is not None and "the line broke" in answer.error.message) == ("error", True)
        types = await event_types(runtime, session.id)
        assert types.index("tool.success") < types.index("step.failed")
        await runtime.sessions.run(session.id)
        assert len(provider.requests) == 2


async def test_a_provider_error_lets_the_call_finish_and_asks_no_more(tmp_path: Path) -> None:
    """SES-131, SES-110, SES-127, SES-089: recorded, no continuation, no exception; what follows the error is ignored,
    and queued input goes on."""
    held = HeldTool()
    reply = claude_answer(claude_call(0, "held"), claude_error("overloaded"), claude_text(1, "ignored"))
    provider = Provider(reply, claude_answer(CLAUDE_END))
    async with Lab(tmp_path, provider, tools={"held": held.tool}) as runtime:
        session = await new_session(runtime, model=CLAUDE)
        await say(runtime, session.id, "queued", delivery="queue", resume=False)
        await say(runtime, session.id, "go", resume=False)
        running = asyncio.create_task(runtime.sessions.run(session.id))
        async with asyncio.timeout(5):
            await held.started.wait()
        held.go.set()
        await running
        first = (await answers(runtime, session.id))[0]
        assert first.error is not None
        assert "overloaded" in first.error.message
        assert outcome((await parts(runtime, session.id))[0]) == "ToolCompleted"
        assert "ignored" not in str(first)
        assert len(provider.requests) == 2
        assert "queued" in str(provider.requests[1]["messages"][-1])
        assert "queued" not in str(provider.requests[0])


async def test_a_half_received_call_before_a_provider_error_is_failed(tmp_path: Path) -> None:
    """SES-127, SES-110, SES-155: the drain goes on to the next input, whose request must not carry a call without its
    result: every provider refuses that."""
    reply = Reply([fragment(0, '{"a', id="call_0", tool="t"), error_event("overloaded")])
    provider = Provider(reply, says("queued"))
    async with Lab(tmp_path, provider, tools={"t": tool(nothing)}) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "queued", delivery="queue", resume=False)
        await say(runtime, session.id, "go")
        await runtime.sessions.wait(session.id)
        sent = provider.requests[1]["messages"]
        called = [item["id"] for message in sent for item in message.get("tool_calls") or ()]
        answered = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
        assert called == answered
        assert [outcome(part) for part in await parts(runtime, session.id)] == ["Tool execution interrupted"]


async def test_interrupting_the_stream_keeps_what_was_received(tmp_path: Path) -> None:
    """SES-132, SES-103, SES-129: running tools are cut and say so, partial text and reasoning stay, the step fails as
    interrupted."""
    held = HeldTool()
    reply = claude_answer(
        claude_text(0, "thinking", "thinking"), claude_text(1, "partly"), claude_call(2, "held"), asyncio.Event()
    )
    async with Lab(tmp_path, Provider(reply), tools={"held": held.tool}) as runtime:
        session = await new_session(runtime, model=CLAUDE)
        await say(runtime, session.id, "go")
        async with asyncio.timeout(5):
            await held.started.wait()
        await runtime.sessions.interrupt(session.id)
        (answer,) = await answers(runtime, session.id)
        assert answer.error is not None
        assert answer.error.message == "Provider turn interrupted"
        texts = [part.text for part in answer.content if not isinstance(part, ToolPart)]
        assert sorted(texts) == ["partly", "thinking"]
        assert outcome((await parts(runtime, session.id))[0]) == "Tool execution interrupted"


async def test_a_half_received_call_becomes_an_error_when_interrupted(tmp_path: Path) -> None:
    """SES-132: with empty input, at once, not by the next drain."""
    provider = Provider(Reply([fragment(0, '{"half', id="call_0", tool="t"), asyncio.Event()]))
    async with Lab(tmp_path, provider, tools={"t": tool(nothing)}) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go")
        await recorded(runtime, session.id, "tool.input.started")
        await runtime.sessions.interrupt(session.id)
        (part,) = await parts(runtime, session.id)
        assert (outcome(part), part.state.input) == ("Tool execution interrupted", {})


async def test_interrupting_the_tools_still_ends_the_step(tmp_path: Path) -> None:
    """SES-133, SES-135: the step was complete and says so; the tool is interrupted; the caller hears of it."""
    held = HeldTool()
    provider = Provider(calls(("held", {})))
    async with Lab(tmp_path, provider, tools={"held": held.tool}) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go", resume=False)
        joined = asyncio.create_task(runtime.sessions.run(session.id))
        async with asyncio.timeout(5):
            await held.started.wait()
        for _ in range(200):
            await asyncio.sleep(0)
        await runtime.sessions.interrupt(session.id)
        with pytest.raises(Interrupted):
            await joined
        (answer,) = await answers(runtime, session.id)
        assert (answer.finish, answer.error) == ("tool-calls", None)
        types = await event_types(runtime, session.id)
        assert types.index("tool.failed") < types.index("step.ended")


async def test_an_undecodable_call_is_failed_and_the_model_hears_of_it(tmp_path: Path) -> None:
    """SES-105, SES-089, SES-213: never called, failed from pending with empty input; it counts as a call, and the next
    request shows it."""
    provider = Provider(*[calls(("t", '{"broken'))] * 8, says("end"))
    async with Lab(tmp_path, provider, tools={"t": tool(nothing)}) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go")
        await runtime.sessions.wait(session.id)
        types = await event_types(runtime, session.id)
        assert "tool.called" not in types
        assert len(provider.requests) == 9
        assert {str(part.state.input) for part in await parts(runtime, session.id)} == {"{}"}
        assert [roles(request).count("tool") for request in provider.requests] == list(range(9))


async def test_a_finish_without_content_creates_an_assistant_message(tmp_path: Path) -> None:
    """SES-099: a finish without content does; an empty stream is a failure and is recorded as one."""
    provider = Provider(Reply(ending()), Reply([b": nothing\n\n"]))
    async with Lab(tmp_path, provider, settings=settings(retry=RetryLimits(total_seconds=0))) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go")
        await runtime.sessions.wait(session.id)
        (answer,) = await answers(runtime, session.id)
        assert (answer.finish, answer.content, answer.error) == ("stop", (), None)
        with pytest.raises(LLMError):
            await runtime.sessions.run(session.id)
        assert (await answers(runtime, session.id))[-1].error is not None
        provider.replies[2:] = [says("x")]
        gate = provider.hold(2)
        running = asyncio.create_task(runtime.sessions.run(session.id))
        await provider.seen(3)
        assert len(await answers(runtime, session.id)) == 2
        gate.set()
        await running


async def test_a_request_holds_agent_text_baseline_and_history(tmp_path: Path) -> None:
    """SES-096, SES-024: the agent's text, then the baseline, then the history; no choice of tools; without an agent the
    configured default one is used."""
    config = {"default_agent": "quick", "agents": {"quick": {"mode": "primary", "system": "OWN TEXT"}}}
    provider = Provider()
    async with Lab(tmp_path, provider, config=config) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "hello")
        await runtime.sessions.wait(session.id)
        (sent,) = provider.requests
        assert roles(sent) == ["system", "user"]
        system = sent["messages"][0]["content"]
        assert system.startswith("OWN TEXT")
        assert str(runtime.directory) in system
        assert sent.get("tool_choice") is None
        assert (await answers(runtime, session.id))[0].agent == "quick"
