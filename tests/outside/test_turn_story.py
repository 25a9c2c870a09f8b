"""One turn of a model, as clients and the provider see it: what is sent, what is recorded, how it can end."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from tests.outside.dialects import sse
from tests.outside.scripted_provider import PATIENCE, Call, Turn, calling
from tests.outside.world import UNCHECKED, World, answer, answers, ask, events, newest, text_of, tools_of, types

from holdfast import ModelRef, PromptInput
from holdfast.schema.live_event import SessionError
from holdfast.schema.session_event import StepStarted, ToolCalled
from holdfast.schema.session_message import ReasoningPart, TextPart, ToolCompleted, ToolError

pytestmark = pytest.mark.anyio

MOCK = ModelRef(id="m", provider_id="mock")
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 30,
    "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens_details": {"reasoning_tokens": 10},
}


async def test_a_request_says_who_speaks_and_for_which_session(world: World) -> None:
    """SES-096, SES-097, SES-098, LLM-384, CTX-098: headers name the Session; the agent's text comes before the
    baseline, as the first of the messages; one request a turn."""
    world.configure(agents={"poet": {"system": "Answer in verse.", "mode": "primary"}})
    async with world.host() as hf:
        session = await hf.sessions.create(agent="poet")
        await ask(hf, session, "go")
        context = await hf.sessions.request_context(session.id)
    (request,) = world.model.requests
    assert request.headers["x-session-affinity"] == request.headers["x-session-id"] == session.id
    assert "x-parent-session-id" not in request.headers
    first = request.body["messages"][0]
    assert first["role"] == "system"
    assert first["content"] == f"Answer in verse.\n{getattr(context, 'baseline', None)}"
    assert "tool_choice" not in request.body


async def test_an_answer_is_recorded_by_its_blocks_not_its_pieces(world: World) -> None:
    """SES-101, SES-107, SES-197, SES-198, SES-208, EVT-057: 40 words are two durable events; content is in the
    order it began; the step ends after its content and says how; a drain adds
    nothing of its own."""
    words = " ".join(str(number) for number in range(40))
    world.model.plays(Turn(text=words, reasoning="let me think", usage=USAGE))
    async with world.host() as hf:
        session = await hf.sessions.create()
        message = await answer(hf, session)
        told = await types(hf, session)
    assert told == [
        "prompt.admitted",
        "prompted",
        "step.started",
        "reasoning.started",
        "reasoning.ended",
        "text.started",
        "text.ended",
        "step.ended",
    ]
    thought, text = message.content
    assert isinstance(thought, ReasoningPart)
    assert isinstance(text, TextPart)
    assert (thought.text, text.text) == ("let me think", words)
    assert thought.time is not None
    assert thought.time.completed is not None
    assert (message.agent, message.model.id, message.model.provider_id, message.finish) == (
        "build",
        "m",
        "mock",
        "stop",
    )
    assert message.time.completed is not None


async def test_usage_and_cost_are_counted_for_step_and_session(world: World) -> None:
    """SES-108, SES-109, LLM-080, LLM-083, LLM-383, LLM-388: the parts do not overlap; prices are per million; the
    Session adds up what its steps used."""
    cost = {"input": 2.0, "output": 10.0, "cache_read": 0.5, "cache_write": 0}
    world.configure(provider={"mock": world.provider(cost=cost)})
    world.model.plays(
        Turn(calls=calling("read", path="hello.txt").calls, usage=USAGE), Turn(text="fine", usage={**USAGE})
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        steps = answers(await hf.sessions.context(session.id))
        total = await hf.sessions.get(session.id)
    for step in steps:
        assert step.tokens is not None
        assert (step.tokens.input, step.tokens.output, step.tokens.reasoning) == (60, 20, 10)
        assert (step.tokens.cache.read, step.tokens.cache.write) == (40, 0)
        assert step.cost == pytest.approx((60 * 2 + 30 * 10 + 40 * 0.5) / 1e6)
    assert (total.tokens.input, total.tokens.output, total.tokens.reasoning) == (120, 40, 20)
    assert total.cost == pytest.approx(sum(step.cost or 0 for step in steps))


async def test_an_answer_without_content_is_still_a_message(world: World) -> None:
    """SES-099, SES-157: it has an end and nothing in it, and the next request leaves it out."""
    world.model.plays(Turn())
    async with world.host() as hf:
        session = await hf.sessions.create()
        message = await answer(hf, session)
        assert (message.content, message.finish) == ((), "stop")
        await ask(hf, session, "again")
    assert [role for role, _ in world.model.last.said] == ["user", "user"]


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        (Turn(status=400, error="you may not"), "you may not"),
        (
            Turn(raw=sse({"error": {"message": "went wrong inside", "code": "invalid_request_error"}})),
            "went wrong inside",
        ),
        (Turn(text="half", cut=True), "truncated"),
    ],
    ids=["refused", "error in the stream", "cut off"],
)
async def test_a_failed_turn_is_recorded_and_the_next_prompt_works(world: World, turn: Turn, said: str) -> None:
    """SES-110, SES-111, SES-136, LLM-331, LLM-343, API-127: one end per step, with the provider's words; what arrived
    is kept; what was queued goes on."""
    gate = asyncio.Event()
    world.model.plays(Turn(**{**turn.__dict__, "begin": gate}), Turn(text="better"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="one"))
        await world.model.asked(1)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="two"), delivery="queue")
        gate.set()
        await hf.sessions.wait(session.id)
        failed, well = answers(await hf.sessions.context(session.id))
        told = await types(hf, session)
    assert failed.finish == "error"
    assert failed.error is not None
    assert said in failed.error.message
    assert text_of(failed) == turn.text
    assert (text_of(well), well.finish, well.error) == ("better", "stop", None)
    assert told.count("step.started") == told.count("step.failed") + told.count("step.ended") == 2


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (ModelRef(id="absent", provider_id="mock"), "mock/absent"),
        (ModelRef(id="m", provider_id="nobody"), "nobody/m"),
        (ModelRef(id="m", provider_id="mock", variant="huge"), "huge"),
    ],
)
async def test_a_model_that_is_not_there_leaves_the_prompt_pending(world: World, chosen: ModelRef, said: str) -> None:
    """SES-094, SES-095, CAT-115, CAT-119: nothing is promoted, no other model answers instead, and the reason is
    announced; with a model that is there the same prompt is answered."""
    async with (
        world.host() as hf,
        asyncio.timeout(PATIENCE),
        aclosing(aiter(hf.events.subscribe())) as live,
    ):
        await anext(live)
        session = await hf.sessions.create(model=chosen, options=UNCHECKED)
        await ask(hf, session, "go", id="msg_1")
        while not isinstance((event := await anext(live)).data, SessionError):
            pass
        assert event.data.error is not None
        assert said in event.data.error.data["message"]
        assert await types(hf, session) == ["prompt.admitted"]
        assert world.model.requests == []
        await hf.sessions.switch_model(session.id, model=MOCK)
        await ask(hf, session, "go", id="msg_1")
        assert text_of(await newest(hf, session)) == "done"


async def test_an_agent_that_is_not_there_leaves_the_prompt_pending(world: World) -> None:
    """SES-025, CAT-057: choosing it is accepted; running as it is not."""
    async with world.host() as hf:
        session = await hf.sessions.create(agent="nobody", options=UNCHECKED)
        assert session.agent == "nobody"
        await ask(hf, session, "go")
        assert await types(hf, session) == ["prompt.admitted"]
        assert world.model.requests == []
        await hf.sessions.switch_agent(session.id, agent="build")
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        assert [text for _, text in world.model.last.said] == ["go"]


async def test_a_switch_during_a_turn_counts_from_the_next(world: World) -> None:
    """SES-021, SES-022, SES-023, SES-091, SES-195, CTX-108, API-115, API-116: the running turn keeps its agent and
    model; the conversation stays; the same model again is nothing, the same agent again is a message."""
    world.configure(
        agents={"poet": {"system": "Answer in verse.", "mode": "primary"}},
        provider={"mock": {**world.provider(), "models": {"m": {"tool_call": True}, "n": {"tool_call": True}}}},
    )
    gate = asyncio.Event()
    world.model.plays(Turn(calls=calling("read", path="hello.txt").calls, begin=gate))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await world.model.asked(1)
        for _ in range(2):
            await hf.sessions.switch_agent(session.id, agent="poet")
            await hf.sessions.switch_model(session.id, model=ModelRef(id="n", provider_id="mock"))
        gate.set()
        await hf.sessions.wait(session.id)
        started = [event.data for event in await events(hf, session) if isinstance(event.data, StepStarted)]
        kinds = [type(message).__name__ for message in await hf.sessions.context(session.id)]
        now = await hf.sessions.get(session.id)
    assert [(step.agent, step.model.id) for step in started] == [("build", "m"), ("poet", "n")]
    assert [request.body["model"] for request in world.model.requests] == ["m", "n"]
    assert "Answer in verse." in world.model.last.system
    assert [role for role, _ in world.model.last.said][:3] == ["user", "assistant", "tool"]
    assert kinds.count("AgentSwitchedMessage") == 2
    assert kinds.count("ModelSwitchedMessage") == 1
    assert now.agent == "poet"
    assert now.model is not None
    assert (now.model.id, now.model.variant) == ("n", "default")


async def test_reasoning_of_another_model_is_told_as_text(world: World) -> None:
    """SES-159, LLM-141: after a switch what was thought stays in the conversation, as ordinary words."""
    world.configure(
        provider={"mock": {**world.provider(), "models": {"m": {"tool_call": True}, "n": {"tool_call": True}}}}
    )
    world.model.plays(Turn(reasoning="seven is prime", text="Yes."))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "Is 7 prime?")
        await hf.sessions.switch_model(session.id, model=ModelRef(id="n", provider_id="mock"))
        await ask(hf, session, "Sure?")
    (told,) = [text for role, text in world.model.last.said if role == "assistant"]
    assert "seven is prime" in told
    assert "Yes." in told


async def test_broken_arguments_are_a_failed_call_that_the_model_reads(world: World) -> None:
    """SES-105, LLM-162, LLM-163, TOL-022: text that is no JSON, and JSON that is no object: never called, input `{}`,
    and the turn goes on."""
    world.model.plays(Turn(calls=(Call("read", '{"path": "hel'), Call("read", '["hello.txt"]'))))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        first, last = answers(await hf.sessions.context(session.id))
        assert "tool.called" not in await types(hf, session)
    for part in tools_of(first):
        assert isinstance(part.state, ToolError)
        assert part.state.input == {}
        assert part.state.error.message.startswith("Invalid tool input: ")
    assert text_of(last) == "done"
    assert all("Invalid tool input" in result for result in world.model.last.results)


async def test_a_call_id_that_comes_again_is_another_call(world: World) -> None:
    """SES-117, SES-155, TOL-033: turn after turn the provider says `call_0`; each result belongs to its own message."""
    world.write("other.txt", "other text\n")
    world.model.plays(calling("read", path="hello.txt"), calling("read", path="other.txt"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        one, two, _ = answers(await hf.sessions.context(session.id))
        called = [event.data for event in await events(hf, session) if isinstance(event.data, ToolCalled)]
    states = [tools_of(message)[0].state for message in (one, two)]
    assert all(isinstance(state, ToolCompleted) for state in states)
    assert [state.structured["content"] for state in states if isinstance(state, ToolCompleted)] == [
        "hello world\n",
        "other text\n",
    ]
    assert [(call.call_id, call.assistant_message_id) for call in called] == [("call_0", one.id), ("call_0", two.id)]
    assert [role for role, _ in world.model.last.said] == ["user", "assistant", "tool", "assistant", "tool"]


async def test_a_turn_in_a_repository_says_which_files_it_changed(world: World) -> None:
    """SES-112: trees before and after, and the paths between them; without a repository there are none."""
    world.repository()
    world.model.plays(calling("write", path="made.txt", content="made\n"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        first, last = answers(await hf.sessions.context(session.id))
    assert first.snapshot is not None
    assert first.snapshot.start != first.snapshot.end
    assert first.snapshot.files == ("made.txt",)
    assert last.snapshot is not None
    assert not last.snapshot.files
