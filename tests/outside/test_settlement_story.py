"""Calls of a turn and their outcomes: when they start, how they fail, what the others do meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.outside.dialects import sse
from tests.outside.scripted_provider import Call, Turn, calling
from tests.outside.world import World, answers, ask, events, newest, of_type, text_of, tools_of, types, until

from holdfast import Holdfast, PromptInput, ToolContext, ToolFailure
from holdfast.schema.session_message import TextContent, ToolCompleted, ToolError, ToolRunning

pytestmark = pytest.mark.anyio

GO = PromptInput(text="go")


class Gate:
    """A tool that says that it runs, and ends when it is let go."""

    def __init__(self, hf: Holdfast, name: str = "gate") -> None:
        self.running: list[int] = []
        self.free = asyncio.Event()
        self.started = asyncio.Semaphore(0)

        async def gate(number: int) -> str:
            """Wait until the test says so."""
            self.running.append(number)
            self.started.release()
            await self.free.wait()
            return f"passed {number}"

        hf.tools.register({name: gate})

    async def reached(self, count: int) -> None:
        for _ in range(count):
            await asyncio.wait_for(self.started.acquire(), 30)


async def test_a_call_is_recorded_before_it_has_an_effect(world: World) -> None:
    """SES-113, TOL-021, TOL-035: what the tool itself can read is its own call, running, with who called
    it."""
    world.model.plays(calling("look", word="x"))
    seen: list[Any] = []
    async with world.host() as hf:

        @hf.tool
        async def look(word: str, caller: ToolContext) -> str:
            """See what is recorded."""
            (message,) = answers(await hf.sessions.context(caller.session_id))
            seen.append((caller, tools_of(message)[0], await types(hf, caller.session_id)))
            return word

        session = await hf.sessions.create()
        await ask(hf, session, "go")
        message, _ = answers(await hf.sessions.context(session.id))
    ((caller, part, told),) = seen
    assert (caller.session_id, caller.agent) == (session.id, "build")
    assert (caller.assistant_message_id, caller.tool_call_id) == (message.id, "call_0")
    assert isinstance(part.state, ToolRunning)
    assert part.state.input == {"word": "x"}
    assert part.time.ran is not None
    assert told[-3:] == ["tool.input.started", "tool.input.ended", "tool.called"]


async def test_calls_start_while_the_model_still_speaks_and_all_end_before_it_is_asked_again(world: World) -> None:
    """SES-113, SES-114, SES-115, LLM-068, EVT-057: five calls run at once although the stream is open; no request
    follows while one is unfinished; all settlements come before the end of the step."""
    world.configure(provider={"mock": world.provider("@ai-sdk/anthropic")})
    stream = asyncio.Event()
    calls = tuple(Call("gate", {"number": number}, id=f"c{number}") for number in range(5))
    world.model.plays(Turn(calls=calls, end=stream))
    async with world.host() as hf:
        gate = Gate(hf)
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=GO)
        await gate.reached(5)
        assert sorted(gate.running) == [0, 1, 2, 3, 4]
        (message,) = answers(await hf.sessions.context(session.id))
        assert [part.state.__class__ for part in tools_of(message)] == [ToolRunning] * 5
        stream.set()
        gate.free.set()
        await hf.sessions.wait(session.id)
        told = await types(hf, session)
        assert told[: told.index("step.ended")].count("tool.success") == 5
    assert len(world.model.requests) == 2
    results = world.model.last.body["messages"][-1]["content"]
    assert [result["content"] for result in results] == [f"passed {number}" for number in range(5)]


async def test_settlements_are_in_the_order_of_completion_and_content_in_that_of_the_calls(world: World) -> None:
    """EVT-058, SES-155: the second call ends first."""
    world.model.plays(
        Turn(calls=(Call("gate", {"number": 0}, id="slow"), Call("read", {"path": "hello.txt"}, id="quick")))
    )
    async with world.host() as hf:
        gate = Gate(hf)
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=GO)
        await until(hf, session, of_type("tool.success"))
        gate.free.set()
        await hf.sessions.wait(session.id)
        settled = [getattr(e.data, "call_id", "") for e in await events(hf, session) if of_type("tool.success")(e)]
        message = answers(await hf.sessions.context(session.id))[0]
    assert settled == ["quick", "slow"]
    assert [part.id for part in tools_of(message)] == ["slow", "quick"]
    assert [item["tool_call_id"] for item in world.model.last.messages if item["role"] == "tool"] == ["slow", "quick"]


async def test_each_way_to_fail_is_told_to_the_model_and_hurts_no_other_call(world: World) -> None:
    """SES-120, SES-121, SES-122, SES-161, TOL-022, TOL-029, TOL-030, TOL-031: an unknown tool, wrong input, a
    failure that the tool meant, one that it did not mean; the sibling succeeds, and the turn goes on."""
    calls = (
        Call("nothing", {}),
        Call("picky", {"number": "seven"}),
        Call("picky", {"number": 1}),
        Call("picky", {"number": 2}),
        Call("picky", {"number": 3}),
    )
    world.model.plays(Turn(calls=calls))
    async with world.host() as hf:

        @hf.tool
        async def picky(number: int) -> str:
            """Refuse most numbers."""
            if number == 1:
                raise ToolFailure("one is taken")
            if number == 2:
                raise KeyError("a secret detail")
            return "three is fine"

        session = await hf.sessions.create()
        await ask(hf, session, "go")
        message, last = answers(await hf.sessions.context(session.id))
    *failed, well = [part.state for part in tools_of(message)]
    messages = [state.error.message for state in failed if isinstance(state, ToolError)]
    assert messages[0] == "Unknown tool: nothing"
    assert messages[1].startswith("Invalid tool input: ")
    assert messages[2] == "one is taken"
    assert messages[3].startswith("Tool execution failed: KeyError")
    assert "secret detail" not in messages[3]
    assert isinstance(well, ToolCompleted)
    assert well.content == (TextContent(text="three is fine"),)
    assert all(text in result for text, result in zip(messages, world.model.last.results, strict=False))
    assert text_of(last) == "done"


async def test_a_call_that_began_is_finished_before_a_failed_turn_is_reported(world: World) -> None:
    """SES-130, SES-131: the provider fails after a complete call: the call is recorded with its result, the step
    failed, and nothing is asked for again."""
    content = sse(
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {
                        "tool_calls": [
                            {"index": 0, "id": "c", "function": {"name": "gate", "arguments": '{"number": 1}'}}
                        ]
                    },
                    "finish_reason": "tool_calls",
                }
            ]
        },
        {"error": {"message": "overloaded after all", "code": "invalid_request_error"}},
    )
    world.model.plays(Turn(raw=content))
    async with world.host() as hf:
        gate = Gate(hf)
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=GO)
        await gate.reached(1)
        gate.free.set()
        await hf.sessions.wait(session.id)
        message = await newest(hf, session)
        told = await types(hf, session)
    (part,) = tools_of(message)
    assert isinstance(part.state, ToolCompleted)
    assert message.finish == "error"
    assert told.index("tool.success") > told.index("tool.called")
    assert told.count("step.failed") + told.count("step.ended") == 1
    assert len(world.model.requests) == 1


async def test_a_tool_that_came_or_went_during_a_turn_is_not_confused_with_another(world: World) -> None:
    """TOL-005, TOL-006, TOL-016, TOL-348, API-403: a call of what was replaced since the request is stale and
    runs nothing; the later registration covers the earlier one until it ends."""
    ran: list[str] = []

    def named(name: str) -> Any:
        async def tool() -> str:
            """Say which one it is."""
            ran.append(name)
            return name

        return tool

    gate = asyncio.Event()
    world.model.plays(Turn(calls=(Call("who", {}),), begin=gate), calling("who"), calling("who"), Turn(text="end"))
    async with world.host() as hf:
        hf.tools.register({"who": named("first")})
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=GO)
        await world.model.asked(1)
        cover = hf.tools.register({"who": named("second")})
        gate.set()
        await world.model.asked(2)
        await until(hf, session, lambda event: of_type("tool.success")(event))
        await hf.sessions.wait(session.id)
        assert world.model.requests[1].results[-1].count("Stale tool call: who") == 1
        assert ran == ["second", "second"]
        cover()
        world.model.plays(calling("who"))
        await ask(hf, session, "again")
    assert ran == ["second", "second", "first"]


async def test_a_bad_name_registers_nothing(world: World) -> None:
    """TOL-003, TOL-004, API-403: none of the names in that call, and an empty mapping is nothing."""

    async def fine() -> str:
        """Be fine."""
        return "fine"

    async with world.host() as hf:
        hf.tools.register({})
        with pytest.raises(Exception, match="Invalid tool name: 9lives"):
            hf.tools.register({"fine": fine, "9lives": fine})
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        assert "fine" not in world.model.last.tools
        tools = {"fine": fine}
        end = hf.tools.register(tools)
        tools["more"] = fine
        await ask(hf, session, "go")
        assert ("fine" in world.model.last.tools, "more" in world.model.last.tools) == (True, False)
        end()
        await ask(hf, session, "go")
        assert "fine" not in world.model.last.tools


async def test_a_structured_result_and_a_text_have_their_own_channels(world: World) -> None:
    """TOL-025, TOL-026, TOL-027, SES-124, SES-160, SES-201: a text is read as it is; a value as JSON, and Session
    consumers get it whole; the raw result is not stored a second time."""
    world.model.plays(Turn(calls=(Call("words", {}), Call("facts", {}))))
    async with world.host() as hf:

        @hf.tool
        async def words() -> str:
            """Answer in words."""
            return "plain words"

        @hf.tool
        async def facts() -> dict[str, int]:
            """Answer in facts."""
            return {"lives": 9}

        session = await hf.sessions.create()
        await ask(hf, session, "go")
        message = answers(await hf.sessions.context(session.id))[0]
    first, second = [part.state for part in tools_of(message)]
    assert isinstance(first, ToolCompleted)
    assert isinstance(second, ToolCompleted)
    assert first.content == (TextContent(text="plain words"),)
    assert (second.structured, second.content) == ({"lives": 9}, ())
    assert world.model.last.results == ["plain words", '{"lives":9}']
    assert (first.result, second.result) == (msgspec.UNSET, msgspec.UNSET)


async def test_application_tools_come_first_and_the_list_is_the_same_bytes_in_every_turn(world: World) -> None:
    """TOL-014, TOL-015, TOL-278: in the order of registration; byte for byte equal while nothing changes."""
    async with world.host() as hf:

        @hf.tool
        async def zebra() -> str:
            """First registered."""
            return ""

        @hf.tool
        async def ant() -> str:
            """Second registered."""
            return ""

        session = await hf.sessions.create()
        await ask(hf, session, "one")
        await ask(hf, session, "two")
    one, two = world.model.requests
    assert one.tools[:3] == ["zebra", "ant", "read"]
    listed = [request.raw[request.raw.index(b'"tools":') : request.raw.index(b'"messages":')] for request in (one, two)]
    assert listed[0] == listed[1]


async def test_at_most_32_calls_run_at_once_and_the_rest_wait_their_turn(world: World) -> None:
    """TOL-039, SES-116: of 40 calls of one turn; in the end all are settled, in the order in which the model made
    them."""
    world.model.plays(Turn(calls=tuple(Call("gate", {"number": number}, id=f"c{number}") for number in range(40))))
    async with world.host() as hf:
        gate = Gate(hf)
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=GO)
        await gate.reached(32)
        await until(
            hf, session, lambda event: getattr(event.data, "call_id", "") == "c39" and of_type("tool.called")(event)
        )
        assert gate.running == list(range(32))
        gate.free.set()
        await hf.sessions.wait(session.id)
        states = [part.state for part in tools_of(answers(await hf.sessions.context(session.id))[0])]
    assert all(isinstance(state, ToolCompleted) for state in states)
    assert world.model.last.results == [f"passed {number}" for number in range(40)]
