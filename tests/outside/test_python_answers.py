"""A prompt and its answer in one call: `hf.run` and `hf.stream`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.world import World, events, until

from holdfast import (
    ActivityFailed,
    AssistantMessage,
    Done,
    FileInput,
    Holdfast,
    HoldfastError,
    InvalidRequest,
    ModelRef,
    PermissionPiece,
    Piece,
    PromptInput,
    ReasoningPiece,
    Session,
    SessionNotFound,
    TextPiece,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from holdfast.schema.session_event import PromptAdmitted

pytestmark = pytest.mark.anyio

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


async def collected(hf: Holdfast, session: Session | str, prompt: str, **settings: Any) -> list[Piece]:
    async with asyncio.timeout(PATIENCE), aclosing(hf.stream(session, prompt, **settings)) as pieces:
        return [piece async for piece in pieces]


def add_ticket(hf: Holdfast) -> None:
    @hf.tool
    async def ticket(number: int) -> str:
        """Look up a ticket."""
        return f"Ticket {number}: seaweed"


async def test_an_answer_has_text_cost_tokens_messages_and_session(world: World) -> None:
    """API-499: over all steps of the activity, and nothing of an earlier one."""
    world.configure(provider={"mock": world.provider(cost={"input": 1_000_000, "output": 2_000_000})})
    world.model.plays(
        Turn(text="earlier", usage=USAGE),
        Turn(text="Looking.", calls=calling("ticket", number=7).calls, usage=USAGE),
        Turn(text="It is about seaweed.", usage=USAGE),
    )
    async with world.host() as hf:
        add_ticket(hf)
        first = await hf.run("hello")
        answer = await hf.run("What is ticket 7?", session=first.session)
    assert (first.text, answer.text) == ("earlier", "It is about seaweed.")
    assert [message.type for message in answer.messages] == ["user", "assistant", "assistant"]
    assert [message.text for message in answer.messages] == ["What is ticket 7?", "Looking.", "It is about seaweed."]
    assert (answer.cost, answer.tokens.input, answer.tokens.output) == (40.0, 20, 10)
    assert answer.session.id == first.session.id
    assert answer.session.cost == first.cost + answer.cost
    assert answer.message == answer.messages[-1]


async def test_a_new_session_keeps_the_model_and_the_agent(world: World) -> None:
    """API-499, API-506: in the directory that is asked for."""
    elsewhere = world.home / "elsewhere"
    elsewhere.mkdir()
    async with world.host() as hf:
        answer = await hf.run("hi", model="demo/echo", agent="plan", directory=elsewhere)
        here = await hf.run("hi")
        with pytest.raises(InvalidRequest, match="new Session"):
            await hf.run("hi", session=here.session, directory=elsewhere)
    assert answer.session.model == ModelRef(provider_id="demo", id="echo", variant="default")
    assert answer.session.agent == "plan"
    assert [item.session.location.directory for item in (answer, here)] == [str(elsewhere), str(world.project)]


async def test_settings_in_an_existing_session_are_for_this_prompt(world: World) -> None:
    """API-499, API-508: recorded with the prompt; the Session keeps its own model and agent."""
    world.write("notes: 1.txt", "a colon in its name")
    async with world.host() as hf:
        session = await hf.sessions.create()
        answer = await hf.run(
            PromptInput(text="hi", metadata={"ticket": 7}),
            session=session.id,
            model="mock/m",
            agent="plan",
            system="Be brief.",
            tools=["read", "grep"],
            files=["hello.txt", Path("notes: 1.txt"), FileInput(uri="data:text/plain,inline"), world.project],
        )
        after = await hf.sessions.get(session.id)
        mapped = await hf.run("again", session=session, tools={"bash": False})
    (prompt, *_) = answer.messages
    assert isinstance(prompt, UserMessage)
    assert prompt.options is not None
    assert prompt.options.system == "Be brief."
    assert prompt.options.tools == {"*": False, "read": True, "grep": True}
    assert (prompt.options.model, prompt.options.agent) == (ModelRef(provider_id="mock", id="m"), "plan")
    assert prompt.metadata == {"ticket": 7}
    assert len(prompt.files or ()) == 4
    assert "a colon in its name" in str(world.model.requests[0].body)
    assert (after.model, after.agent) == (session.model, session.agent)
    assert isinstance(mapped.messages[0], UserMessage)
    assert mapped.messages[0].options is not None
    assert mapped.messages[0].options.tools == {"bash": False}


async def test_settings_have_effect_for_this_prompt_only(world: World) -> None:
    """API-508, API-499: system text, fewer tools, another agent and another model; an unknown one is refused."""
    models = {"m": {"tool_call": True}, "other": {"tool_call": True}}
    world.configure(provider={"mock": {**world.provider(), "models": models}})
    async with world.host() as hf:
        session = (await hf.run("one")).session
        await hf.run("two", session=session, system="Be brief.", tools=["read"])
        await hf.run("three", session=session, tools=[])
        answer = await hf.run("four", session=session, agent="plan", model="mock/other")
        await hf.run("five", session=session)
        with pytest.raises(InvalidRequest, match="mock/nosuch"):
            await hf.run("six", session=session, model="mock/nosuch")
    _, brief, bare, planned, usual = world.model.requests
    assert "Be brief." in str(brief.body)
    assert (brief.tools, bare.tools) == (["read"], [])
    assert (answer.message.agent, planned.body["model"]) == ("plan", "other")
    assert usual.body["model"] == "m"
    assert "bash" in usual.tools


async def test_mentions_in_a_text_are_attached(world: World) -> None:
    """API-475: a `PromptInput` is sent as it is."""
    world.write("notes.txt", "buy milk")
    world.model.plays(Turn(text="one"), Turn(text="two"), Turn(text="three"))
    async with world.host() as hf:
        answer = await hf.run("read @notes.txt")
        assert "buy milk" in str(world.model.last.said)
        async for _ in hf.stream(answer.session, "and @notes.txt again"):
            pass
        assert str(world.model.last.said).count("buy milk") == 2
        await hf.run(PromptInput(text="not @notes.txt"), session=answer.session)
    assert str(world.model.last.said).count("buy milk") == 2


async def test_an_unknown_keyword_is_refused(world: World) -> None:
    """API-508: nothing is accepted in silence."""
    given: dict[str, Any] = {"modle": "mock/m"}
    async with world.host() as hf:
        session = await hf.sessions.create()
        with pytest.raises(TypeError, match="modle"):
            await hf.run("hi", **given)
        with pytest.raises(TypeError, match="modle"):
            hf.stream(session, "hi", **given)
        with pytest.raises(TypeError, match="modle"):
            Holdfast(**given)
        with pytest.raises(InvalidRequest, match="list of names"):
            await hf.run("hi", tools="read")
        assert (await hf.sessions.history(session.id)).events == []


@pytest.mark.parametrize(
    ("turn", "kind", "message"),
    [
        (Turn(status=401, error="no such key"), "failed", "no such key"),
        (Turn(status=400, error="not like that"), "failed", "not like that"),
    ],
)
async def test_a_failure_is_raised_with_its_outcome(world: World, turn: Turn, kind: str, message: str) -> None:
    """API-500: by `run` and by `stream`, as one class below HoldfastError."""
    world.model.plays(turn, turn)
    async with world.host() as hf:
        with pytest.raises(ActivityFailed, match=message) as failed:
            await hf.run("hi")
        assert failed.value.outcome.type == kind
        assert failed.value.session_id is not None
        with pytest.raises(HoldfastError, match=message):
            await collected(hf, failed.value.session_id, "again")
        history = [event.type for event in await events(hf, failed.value.session_id)]
    assert history[-1] == "session.next.step.failed"


async def test_a_prompt_that_cannot_start_is_a_failure(world: World) -> None:
    """API-500: no model; a deleted Session; a prompt that asks for no reply."""
    (world.user_folder / "opencode.json").write_text("{}")
    async with world.host() as hf:
        with pytest.raises(ActivityFailed) as blocked:
            await hf.run("hi")
        assert blocked.value.outcome.type == "blocked"
        with pytest.raises(SessionNotFound):
            await hf.run("hi", session="ses_unknown")
        with pytest.raises(SessionNotFound):
            await collected(hf, "ses_unknown", "hi")
        with pytest.raises(InvalidRequest, match="no_reply"):
            await hf.run(PromptInput(text="hi", no_reply=True))


async def test_interrupted_and_denied_work_is_a_failure(world: World) -> None:
    """API-500: someone interrupts; a person says no; both are told from each other by the outcome."""
    world.configure(permission={"bash": "ask"})
    held = Turn(text="slow", end=asyncio.Event())
    world.model.plays(held, calling("bash", command="true"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        running = asyncio.create_task(hf.run("hi", session=session))
        await world.model.asked(1)
        await hf.sessions.interrupt(session.id)
        with pytest.raises(ActivityFailed) as interrupted:
            await running
        assert interrupted.value.outcome.type == "interrupted"
        hf.on_permission(lambda request: "reject", session=session)
        with pytest.raises(ActivityFailed) as denied:
            await hf.run("now do it", session=session)
    assert denied.value.outcome.type in ("interrupted", "failed")


async def test_a_stream_has_text_reasoning_and_tools_in_order(world: World) -> None:
    """API-501, API-502: the pieces add up to what is recorded, and the last one has the answer."""
    world.model.plays(
        Turn(reasoning="I need the ticket.", text="Looking it up.", calls=calling("ticket", number=7).calls),
        Turn(text="It is about seaweed."),
    )
    async with world.host() as hf:
        add_ticket(hf)
        session = await hf.sessions.create()
        pieces = await collected(hf, session, "What is ticket 7?")
    done = pieces[-1]
    assert isinstance(done, Done)
    assert done.answer.text == "It is about seaweed."
    assert "".join(piece.text for piece in pieces) == "Looking it up.It is about seaweed."
    assert "".join(piece.reasoning for piece in pieces if isinstance(piece, ReasoningPiece)) == "I need the ticket."
    (started,) = [piece for piece in pieces if isinstance(piece, ToolStarted)]
    (finished,) = [piece for piece in pieces if isinstance(piece, ToolFinished)]
    assert (started.tool, started.input) == ("ticket", {"number": 7})
    assert (finished.tool, finished.output, finished.error) == ("ticket", "Ticket 7: seaweed", None)
    kinds = [type(piece) for piece in pieces]
    assert kinds.index(ReasoningPiece) < kinds.index(TextPiece) < kinds.index(ToolStarted) < kinds.index(ToolFinished)


async def test_text_arrives_while_it_is_written(world: World) -> None:
    """API-501: not only when the answer is complete."""
    end = asyncio.Event()
    world.model.plays(Turn(text="so far", end=end))
    async with world.host() as hf:
        session = await hf.sessions.create()
        async with asyncio.timeout(PATIENCE), aclosing(hf.stream(session, "hi")) as pieces:
            text = ""
            while text != "so far":
                text += (await anext(pieces)).text
            end.set()
            rest = [piece async for piece in pieces]
    assert [type(piece) for piece in rest] == [Done]


async def test_a_failed_call_and_an_unknown_tool_are_told(world: World) -> None:
    """API-501: with the error that the model reads."""
    world.model.plays(calling("ticket", number="seven"), calling("nosuch"), Turn(text="Sorry."))
    async with world.host() as hf:
        add_ticket(hf)
        pieces = await collected(hf, await hf.sessions.create(), "go")
    failed = [piece for piece in pieces if isinstance(piece, ToolFinished)]
    assert [piece.tool for piece in failed] == ["ticket", "nosuch"]
    assert all(piece.error for piece in failed)


async def test_a_stream_ends_with_its_own_prompt(world: World) -> None:
    """API-501: other prompts wait in the Session, and theirs is not yielded."""
    first = Turn(text="first answer", begin=asyncio.Event())
    second = Turn(text="second answer", begin=asyncio.Event())
    world.model.plays(first, second)
    async with world.host() as hf:
        session = await hf.sessions.create()
        streaming = asyncio.create_task(collected(hf, session, "one"))
        await world.model.asked(1)
        await hf.sessions.prompt(session.id, prompt="two", delivery="queue")
        assert first.begin is not None
        first.begin.set()
        pieces = await streaming
        await world.model.asked(2)
        running = await hf.sessions.active()
        assert second.begin is not None
        second.begin.set()
        await hf.sessions.wait(session.id)
    assert session.id in running
    assert "".join(piece.text for piece in pieces) == "first answer"
    assert isinstance(pieces[-1], Done)
    assert [message.text for message in pieces[-1].answer.messages] == ["one", "first answer"]


async def test_whoever_stops_reading_leaves_the_session_at_work(world: World) -> None:
    """API-503: cancellation, an early end of the loop and a time limit end only the waiting."""
    for way in ("cancel", "close", "timeout"):
        end = asyncio.Event()
        world.model.plays(Turn(text="so far", end=end))
        async with world.host() as hf:
            session = await hf.sessions.create()
            asked = len(world.model.requests) + 1
            if way == "timeout":
                with pytest.raises(TimeoutError):
                    await hf.run("hi", session=session, timeout=0.05)
                await world.model.asked(asked)
            elif way == "cancel":
                running = asyncio.create_task(hf.run("hi", session=session))
                await world.model.asked(asked)
                running.cancel()
                await asyncio.wait({running})
                assert running.cancelled()
            else:
                async with aclosing(hf.stream(session, "hi")) as pieces:
                    assert (await anext(pieces)).text
            end.set()
            await hf.sessions.wait(session.id)
            (newest,) = (await hf.sessions.messages(session.id, limit=1)).items
        assert isinstance(newest, AssistantMessage)
        assert (newest.text, newest.finish) == ("so far", "stop")


async def test_with_interrupt_the_session_stops_too(world: World) -> None:
    """API-503: whenever the caller stops, also while the prompt is being admitted."""
    for steps in (None, 1, 5):
        world.model.plays(Turn(text="so far", end=asyncio.Event()))
        async with world.host() as hf:
            session = await hf.sessions.create()
            asked = len(world.model.requests) + 1
            running = asyncio.create_task(hf.run("hi", session=session, interrupt=True))
            if steps is None:
                await world.model.asked(asked)
            else:
                for _ in range(steps):
                    await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait({running})
            assert await hf.sessions.active() == {}
            if steps is None:
                assert (await hf.sessions.outcome(session.id)).type == "interrupted"


async def test_a_request_to_a_person_is_a_piece(world: World) -> None:
    """API-501: it can be answered from the loop that reads the stream."""
    world.configure(permission={"bash": "ask"})
    world.model.plays(calling("bash", command="echo done"), Turn(text="Good."))
    async with world.host() as hf:
        session = await hf.sessions.create()
        async with asyncio.timeout(PATIENCE), aclosing(hf.stream(session, "go")) as pieces:
            async for piece in pieces:
                if isinstance(piece, PermissionPiece):
                    asked = piece.request
                    await hf.permissions.reply(session.id, request_id=asked.id, reply="once")
                if isinstance(piece, Done):
                    answer = piece.answer
    assert asked.resources == ("echo done",)
    assert answer.text == "Good."


async def test_another_process_does_the_work(world: World) -> None:
    """API-502: only durable events cross; the text comes whole, and the answer is the same."""
    end = asyncio.Event()
    world.model.plays(Turn(text="first", end=end), Turn(text="a longer answer"))
    async with world.host() as other, world.host() as hf:
        session = await other.sessions.create()
        running = asyncio.create_task(other.run("one", session=session))
        await world.model.asked(1)
        streaming = asyncio.create_task(collected(hf, session.id, "two"))
        await until(
            hf, session, lambda event: isinstance(event.data, PromptAdmitted) and event.data.prompt.text == "two"
        )
        end.set()
        pieces = await streaming
        await running
    assert "".join(piece.text for piece in pieces) == "a longer answer"
    assert isinstance(pieces[-1], Done)


async def test_many_answers_at_once(world: World) -> None:
    """API-499: each gets its own."""
    world.model.always = lambda request: Turn(text=f"re: {request.said[-1][1]}")
    async with world.host() as hf, asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(*(hf.run(f"question {number}") for number in range(20)))
    assert [answer.text for answer in answers] == [f"re: question {number}" for number in range(20)]
    assert len({answer.session.id for answer in answers}) == 20


async def test_a_closed_host_ends_a_stream_with_a_failure(world: World) -> None:
    """API-501, API-402: the reader is told, and does not wait for ever."""
    world.model.plays(Turn(text="so far", end=asyncio.Event()))
    async with world.host() as hf:
        session = await hf.sessions.create()
        pieces = hf.stream(session, "hi")
        assert (await anext(pieces)).text
    with pytest.raises(HoldfastError):
        async with asyncio.timeout(PATIENCE):
            [piece async for piece in pieces]
