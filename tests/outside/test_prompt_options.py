"""The options of one prompt: system text, tools, agent, model, variant, metadata, and prompts that want no answer."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.world import UNCHECKED, World, newest, types, until

from holdfast import ApiError, Holdfast, ModelRef, PromptInput, Session
from holdfast.schema.insight import RequestContextInfo
from holdfast.schema.prompt import ModelInput
from holdfast.schema.session_message import SystemMessage, UserMessage

pytestmark = pytest.mark.anyio

RHYME = "Answer in rhymes."
SAID = f"<system-update>\n{RHYME}\n</system-update>"


async def say(hf: Holdfast, session: Session, text: str = "go", **options: Any) -> None:
    await hf.sessions.prompt(session.id, text=text, **options)
    async with asyncio.timeout(PATIENCE):
        await hf.sessions.wait(session.id)


async def breaks(hf: Holdfast, session: Session) -> list[tuple[str, ...]]:
    context = await hf.sessions.request_context(session.id)
    assert isinstance(context, RequestContextInfo)
    return [found.causes for found in context.prefix_breaks]


# -- system text -----------------------------------------------------------------------------------------------------


async def test_system_text_ends_each_request_of_its_prompt_and_no_other(world: World) -> None:
    """SES-206, SES-294: it follows the history in both requests of its activity and is neither in the baseline nor in
    any message."""
    world.model.plays(calling("read", filePath="hello.txt"), Turn(text="done"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await say(hf, session, "first")
        world.model.plays(calling("read", filePath="hello.txt"), Turn(text="done"))
        await say(hf, session, "second", system=RHYME)
        await say(hf, session, "third")
        kinds = [type(message) for message in await hf.sessions.context(session.id)]

    *before, asked, called, after = world.model.requests
    assert asked.said[-1] == ("user", f"second\n{SAID}")
    assert called.said[-1] == ("user", SAID)
    assert all(RHYME.encode() not in request.raw for request in (*before, after))
    assert SystemMessage not in kinds


async def test_the_bytes_before_the_system_text_begin_the_next_request(world: World) -> None:
    """SES-213, SES-294: measured on the wire, request after request; no prefix break is recorded."""
    world.model.plays(calling("read", filePath="hello.txt"), Turn(text="done"), Turn(text="done"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await say(hf, session, "first", system=RHYME)
        await say(hf, session, "second", system="Be brief.")
        await say(hf, session, "third")

        assert await breaks(hf, session) == []
    bodies = [request.raw for request in world.model.requests]
    for body, following in itertools.pairwise(bodies):
        kept = body[: body.rindex(b"<system-update>")]
        for opening in (b"\\n", b',{"role":"user","content":"'):
            kept = kept.removesuffix(opening)
        assert following.startswith(kept)


async def test_options_hold_after_a_restart(world: World) -> None:
    """SES-206: the next process goes on with the system text, the tools and the model of the prompt."""
    silent = asyncio.Event()
    world.configure(provider={"mock": {**world.provider(), "models": {"m": {}, "n": {}}}})
    world.model.plays(Turn(begin=silent))
    async with world.host() as hf:
        session = await hf.sessions.create()
        model = ModelRef(id="n", provider_id="mock")
        await hf.sessions.prompt(session.id, text="go", system=RHYME, tools={"bash": False}, model=model)
        await world.model.asked(1)
    async with world.host() as hf:
        await hf.sessions.wait(session.id)  # the first operation goes on with what was stopped
        await world.model.asked(2)
        await say(hf, session, "next")
    first, again, after = world.model.requests
    assert first.raw == again.raw
    assert (RHYME in again.said[-1][1], "bash" in again.tools, again.body["model"]) == (True, False, "n")
    assert (RHYME.encode() in after.raw, "bash" in after.tools, after.body["model"]) == (False, True, "m")


async def test_of_prompts_that_are_promoted_together_the_last_one_decides(world: World) -> None:
    """SES-206."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, text="one", system="Be brief.", resume=False)
        await say(hf, session, "two", system=RHYME)
    (request,) = world.model.requests
    assert str(request.said[-1][1]).endswith(f"two\n{SAID}")
    assert b"Be brief." not in request.raw


# -- agent, model, variant -------------------------------------------------------------------------------------------


async def test_agent_and_model_hold_for_one_prompt(world: World) -> None:
    """SES-295: the answer is theirs, the Session keeps its own, and the next prompt is answered by that."""
    world.configure(provider={"mock": {**world.provider(), "models": {"m": {}, "n": {}}}})
    async with world.host() as hf:
        session = await hf.sessions.create()
        await say(hf, session, "one")
        await say(hf, session, "two", agent="plan", model=ModelRef(id="n", provider_id="mock"))
        planned = await newest(hf, session)
        await say(hf, session, "three")
        built = await newest(hf, session)
        now = await hf.sessions.get(session.id)

    assert (planned.agent, planned.model.id) == ("plan", "n")
    assert (built.agent, built.model.id) == ("build", "m")
    assert (now.agent, now.model) == (session.agent, session.model)
    assert [request.body["model"] for request in world.model.requests] == ["m", "n", "m"]
    assert "Plan mode is active" in world.model.requests[1].said[-1][1]
    assert "Plan mode has ended" in world.model.requests[2].said[-1][1]


async def test_the_rights_of_a_turn_are_those_of_its_agent(world: World) -> None:
    """SES-295, SES-119: `plan` may not edit, also for one prompt only."""
    world.model.plays(calling("write", filePath="made.txt", content="x"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await say(hf, session, "go", agent="plan")
    assert not (world.project / "made.txt").exists()


async def test_a_variant_alone_is_one_of_the_model_in_use(world: World) -> None:
    """SES-295."""
    variants = {"m": {"variants": {"deep": {"reasoningEffort": "high"}}}}
    world.configure(provider={"mock": {**world.provider(), "models": variants}})
    async with world.host() as hf:
        session = await hf.sessions.create()
        await say(hf, session, "one", variant="deep")
        answer = await newest(hf, session)
        await say(hf, session, "two")
    assert (answer.model.id, answer.model.variant) == ("m", "deep")
    assert [request.body.get("reasoning_effort") for request in world.model.requests] == ["high", None]


@pytest.mark.parametrize(
    ("field", "value"),
    [("agent", "nobody"), ("model", ModelRef(id="none", provider_id="nowhere")), ("variant", "nonsense")],
)
async def test_a_choice_that_does_not_exist_is_refused_or_blocked(world: World, field: str, value: Any) -> None:
    """SES-296, SES-255: checked requests get a 400 with the field; others a wait that names the cause."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        with pytest.raises(ApiError) as refused:
            await hf.sessions.prompt(session.id, text="go", **{field: value})
        assert (refused.value.status, refused.value.body["field"]) == (400, field)
        assert await hf.sessions.pending(session.id) == []

        await hf.sessions.prompt(session.id, text="go", **{field: value}, options=UNCHECKED)
        await hf.sessions.wait(session.id)
        (wait,) = await hf.sessions.waits(session.id)
        assert wait.kind == "blocked"
        assert (await hf.sessions.outcome(session.id)).type == "blocked"
    assert world.model.requests == []


# -- tools -----------------------------------------------------------------------------------------------------------


async def test_a_prompt_leaves_tools_out_and_never_adds_one(world: World) -> None:
    """TOL-019, TOL-416, TOL-418: a name decides before a pattern; what an agent may not call is not added."""
    world.configure(agent={"careful": {"permission": {"bash": "deny"}}})
    async with world.host() as hf:
        session = await hf.sessions.create(agent="careful")
        await say(hf, session, "one")
        await say(hf, session, "two", tools={"*": False, "read": True, "bash": True})
        await say(hf, session, "three", tools={"web*": False})
        await say(hf, session, "four")
        causes = await breaks(hf, session)

    everything, one, others, again = (request.tools for request in world.model.requests)
    assert "bash" not in everything
    assert one == ["read"]
    assert others == [name for name in everything if not name.startswith("web")]
    assert again == everything
    assert causes == [("tool change",)] * 3


async def test_a_call_of_a_tool_that_was_left_out_fails(world: World) -> None:
    """TOL-416."""
    world.model.plays(calling("write", filePath="made.txt", content="x"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await say(hf, session, "go", tools={"write": False})
    assert not (world.project / "made.txt").exists()
    assert "Unknown tool: write" in world.model.last.results[-1]


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_tool_that_does_not_exist_is_refused(world: World, wanted: bool) -> None:
    """TOL-417: also by a server that checks nothing else, and not again for a retry."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        with pytest.raises(ApiError) as refused:
            await hf.sessions.prompt(session.id, text="go", tools={"bahs": wanted}, options=UNCHECKED)
        assert (refused.value.status, refused.value.body["field"]) == (400, "tools.bahs")
        assert await hf.sessions.pending(session.id) == []


# -- prompts that want no answer -------------------------------------------------------------------------------------


async def test_a_prompt_without_reply_needs_no_model_and_owes_nothing(world: World) -> None:
    """SES-297: on an idle Session without any usable model it is a message at once."""
    world.configure(model="mock/none", provider={})
    async with world.host() as hf:
        session = await hf.sessions.create(agent="nobody", options=UNCHECKED)
        await say(hf, session, "remember this", no_reply=True)
        (message,) = await hf.sessions.context(session.id)
        outcome = await hf.sessions.outcome(session.id)

        assert isinstance(message, UserMessage)
        assert (message.text, message.options and message.options.no_reply) == ("remember this", True)
        assert (outcome.type, outcome.pending) == ("idle", 0)
        assert await types(hf, session) == ["prompt.admitted", "prompted"]
        assert await hf.sessions.waits(session.id) == []
        assert await hf.sessions.interrupted() == []
        assert await hf.verify() == []
    assert world.model.requests == []


async def test_prompts_without_reply_keep_their_place(world: World) -> None:
    """SES-297: before, during and after a turn; the model sees all of them in the order in which they were sent."""
    silent = asyncio.Event()
    world.model.plays(Turn(text="first", begin=silent))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await say(hf, session, "a", no_reply=True)
        await hf.sessions.prompt(session.id, text="b")
        await world.model.asked(1)
        await hf.sessions.prompt(session.id, text="c", no_reply=True)
        await hf.sessions.prompt(session.id, text="d", delivery="queue", no_reply=True)
        silent.set()
        await hf.sessions.wait(session.id)
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        assert len(world.model.requests) == 1
        await say(hf, session, "e")
        messages = await hf.sessions.context(session.id)
    assert [message.text for message in messages] == ["a", "b", "first", "c", "d", "e", "done"]
    assert len(world.model.requests) == 2


async def test_a_prompt_without_reply_does_not_decide_about_the_running_activity(world: World) -> None:
    """SES-206, SES-297: it joins between two steps, and the options of the prompt before it stay in force."""
    silent = asyncio.Event()
    world.model.plays(Turn(calls=calling("read", filePath="hello.txt").calls, end=silent), Turn(text="done"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, text="go", system=RHYME)
        await world.model.asked(1)
        await hf.sessions.prompt(session.id, text="by the way", no_reply=True)
        silent.set()
        await hf.sessions.wait(session.id)
    _, second = world.model.requests
    assert "by the way" in second.said[-1][1]
    assert second.said[-1][1].endswith(SAID)


async def test_a_prompt_without_reply_waits_behind_unfinished_work(world: World) -> None:
    """SES-254, SES-297: it decides nothing about a turn whose process was killed; after the decision it follows."""
    silent = asyncio.Event()
    world.model.plays(Turn(begin=silent))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, text="go")
        await world.model.asked(1)
        await hf.sessions.prompt(session.id, text="note", no_reply=True)
        pending = [item.prompt.text for item in await hf.sessions.pending(session.id)]
        assert pending == ["note"]
        await hf.sessions.interrupt(session.id)
        assert [item.prompt.text for item in await hf.sessions.pending(session.id)] == ["note"]
        await say(hf, session, "more")
        messages = await hf.sessions.context(session.id)
    assert [item.text for item in messages if isinstance(item, UserMessage)] == ["go", "note", "more"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("system", RHYME), ("tools", {"bash": False}), ("agent", "plan"), ("variant", "high")],
)
async def test_no_option_fits_a_prompt_without_reply(world: World, name: str, value: Any) -> None:
    """SES-298."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        with pytest.raises(ApiError) as refused:
            await hf.sessions.prompt(session.id, text="go", no_reply=True, **{name: value})
        assert (refused.value.status, refused.value.body["field"]) == (400, name)
        assert await hf.sessions.pending(session.id) == []


# -- equality, metadata, limits --------------------------------------------------------------------------------------


async def test_metadata_is_kept_for_clients_and_not_sent(world: World) -> None:
    """SES-299: in the receipt, in both events and in the message."""
    about = {"source": "issue", "tags": ["a", 1, None, {"deep": 0.5}]}
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await hf.sessions.prompt(session.id, text="go", metadata=about)
        seen = await until(hf, session, lambda event: event.type == "session.next.step.ended")
        message = await hf.sessions.message(session.id, message_id=receipt.id)
        kept = [event.data.prompt.metadata for event in seen if hasattr(event.data, "prompt")]
    assert receipt.prompt.metadata == message.metadata == about
    assert kept == [about, about]
    assert b"issue" not in world.model.last.raw


async def test_other_options_are_another_prompt(world: World) -> None:
    """SES-300, SES-038: the same id with other options or metadata is a conflict; the same ones in either shape and any
    order are a retry, also when the tool that they name is gone."""
    given = {"system": RHYME, "tools": {"bash": False, "read": True}, "metadata": {"a": 1}}
    async with world.host() as hf:
        session = await hf.sessions.create()

        async def send(**options: Any) -> Any:
            return await hf.sessions.prompt(session.id, id="msg_mine", text="go", resume=False, **options)

        receipt = await send(**given)
        assert await send(**{**given, "tools": {"read": True, "bash": False}}) == receipt
        inside = PromptInput(text="go", system=RHYME, tools={"bash": False, "read": True}, metadata={"a": 1})
        assert await hf.sessions.prompt(session.id, id="msg_mine", prompt=inside, resume=False) == receipt
        for other in ({}, {"system": "x"}, {"tools": {"bash": False}}, {"metadata": {"a": 2}}, {"agent": "plan"}):
            with pytest.raises(ApiError) as refused:
                await send(**({**given, **other} if other else {}))
            assert (refused.value.status, refused.value.code) == (409, "ConflictError")
        assert await types(hf, session) == ["prompt.admitted"]


async def test_a_retry_is_not_checked_again(world: World) -> None:
    """SES-300: the receipt does not depend on what exists now."""
    world.configure(agent={"careful": {"prompt": "Be careful."}})
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await hf.sessions.prompt(session.id, id="msg_mine", text="go", agent="careful", resume=False)
    world.configure()
    async with world.host() as hf:
        assert await hf.sessions.prompt(session.id, id="msg_mine", text="go", agent="careful", resume=False) == receipt


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metadata", {"text": "x" * 70_000}),
        ("metadata", {"deep": json.loads("[" * 128 + "]" * 128)}),
        ("system", "x" * 270_000),
        ("tools", {f"tool{number}*": False for number in range(2_000)}),
        ("agent", "x" * 5_000),
        ("model", ModelInput(id="x" * 5_000, provider_id="mock")),
        ("variant", "x" * 5_000),
    ],
)
async def test_options_are_limited(world: World, name: str, value: Any) -> None:
    """SES-299, SES-234: too much of any of them is refused with the field, and nothing is admitted."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        with pytest.raises(ApiError) as refused:
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="go", **{name: value}))
        assert (refused.value.status, refused.value.body["field"]) == (400, f"prompt.{name}")
        assert await hf.sessions.pending(session.id) == []
