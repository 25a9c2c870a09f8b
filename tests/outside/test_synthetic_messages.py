"""Text that a program adds to a conversation."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.outside.scripted_provider import Turn
from tests.outside.world import World, ask, events, types

from holdfast import ApiError, ForkThrough, Holdfast, PromptInput, Session
from holdfast.schema.session_event import PromptAdmitted, Synthetic
from holdfast.schema.session_message import SyntheticMessage

pytestmark = pytest.mark.anyio

GIVEN: dict[str, Any] = {"text": "The build is green.", "description": "build", "metadata": {"source": "ci", "run": 7}}


async def refused(hf: Holdfast, session: Session, **given: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await hf.sessions.synthetic(session.id, **given)
    return caught.value


async def test_a_synthetic_input_becomes_a_synthetic_message(world: World) -> None:
    """SES-290, SES-291, SES-192, API-477: it wakes the Session, the model reads the text as the user's, and clients see
    description and metadata."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await hf.sessions.synthetic(session.id, **GIVEN)
        await hf.sessions.wait(session.id)
        message = (await hf.sessions.context(session.id))[0]
        recorded = [event.data for event in await events(hf, session)]
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        assert await hf.sessions.pending(session.id) == []
        assert await hf.verify() == []

    assert (receipt.type, receipt.delivery, receipt.prompt.text) == ("synthetic", "steer", GIVEN["text"])
    assert isinstance(message, SyntheticMessage)
    assert (message.id, message.text) == (receipt.id, GIVEN["text"])
    assert (message.description, message.metadata) == (GIVEN["description"], GIVEN["metadata"])
    assert message.time.created == receipt.time_created
    admitted, promoted = recorded[:2]
    assert isinstance(admitted, PromptAdmitted)
    assert admitted.type == "synthetic"
    assert isinstance(promoted, Synthetic)
    assert (promoted.message_id, promoted.delivery) == (receipt.id, "steer")
    assert world.model.last.said == [("user", GIVEN["text"])]
    assert "source" not in world.model.last.raw.decode()


async def test_pending_inputs_tell_their_kind_and_keep_their_order(world: World) -> None:
    """SES-290: steers of both kinds are promoted together, in the order of admission; one can be withdrawn."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.synthetic(session.id, text="context", resume=False)
        gone = await hf.sessions.synthetic(session.id, text="withdrawn", resume=False)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="question"), resume=False)
        await hf.sessions.synthetic(session.id, text="later", delivery="queue", resume=False)
        inbox = await hf.sessions.inbox(session.id)
        pending = await hf.sessions.pending(session.id)
        await hf.sessions.withdraw(session.id, message_id=gone.id)
        assert world.model.requests == []
        await hf.sessions.run(session.id)
        kinds = await types(hf, session)

    assert [(type(item).__name__, item.payload.text) for item in inbox] == [
        ("InboxSynthetic" if item.type == "synthetic" else "InboxUser", item.prompt.text) for item in pending
    ]
    assert [(item.type, item.prompt.text) for item in pending] == [
        ("synthetic", "context"),
        ("synthetic", "withdrawn"),
        (None, "question"),
        ("synthetic", "later"),
    ]
    assert [kind for kind in kinds if kind in ("synthetic", "prompted")] == ["synthetic", "prompted", "synthetic"]
    assert [text for role, text in world.model.requests[0].said] == ["context", "question"]
    assert [text for role, text in world.model.last.said if role == "user"] == ["context", "question", "later"]


async def test_a_repeated_synthetic_input_is_the_same_one(world: World) -> None:
    """SES-290: before and after promotion; other content, delivery or kind is a conflict."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        first, *others = await asyncio.gather(
            *(hf.sessions.synthetic(session.id, id="msg_one", resume=False, **GIVEN) for _ in range(3))
        )
        assert others == [first] * 2
        changes: tuple[dict[str, Any], ...] = (
            {"text": "x"},
            {"description": "x"},
            {"metadata": {}},
            {"delivery": "queue"},
        )
        for change in changes:
            assert (await refused(hf, session, **{**GIVEN, "id": "msg_one", **change})).status == 409
        with pytest.raises(ApiError) as other_kind:
            await hf.sessions.prompt(session.id, prompt=PromptInput(text=GIVEN["text"]), id="msg_one")
        assert other_kind.value.status == 409
        await hf.sessions.run(session.id)
        again = await hf.sessions.synthetic(session.id, id="msg_one", **GIVEN)
        await hf.sessions.wait(session.id)

    assert again.promoted_seq is not None
    assert len(world.model.requests) == 1


async def test_a_synthetic_input_steers_a_running_turn(world: World) -> None:
    """SES-290: it joins at the next boundary, as a prompt does."""
    gate = asyncio.Event()
    world.model.plays(Turn(text="first", end=gate))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await world.model.asked(1)
        await hf.sessions.synthetic(session.id, **GIVEN)
        gate.set()
        await hf.sessions.wait(session.id)

    assert [text for _, text in world.model.last.said] == ["go", "first", GIVEN["text"]]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_synthetic_input_keeps_the_options_of_the_prompt_before_it(world: World, restarted: bool) -> None:
    """SES-291, SES-294: also when another process takes the turn."""
    async with AsyncExitStack() as stack:
        hf = await stack.enter_async_context(world.host())
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, text="go", system="Be brief.", tools={"*": False})
        await hf.sessions.wait(session.id)
        if restarted:
            await stack.aclose()
            hf = await stack.enter_async_context(world.host())
        await hf.sessions.synthetic(session.id, text="more")
        await hf.sessions.wait(session.id)
        assert "Be brief." in str(world.model.last.body)
        assert world.model.last.tools == []
        await hf.sessions.prompt(session.id, text="next")
        await hf.sessions.wait(session.id)
    assert "Be brief." not in str(world.model.last.body)


async def test_a_synthetic_input_does_not_decide_about_a_staged_revert(world: World) -> None:
    """SES-290: nothing is committed and nothing runs; the decision takes it away or keeps it."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        first = (await hf.sessions.context(session.id))[0]
        await hf.sessions.stage_revert(session.id, message_id=first.id)
        await hf.sessions.synthetic(session.id, **GIVEN)
        await hf.sessions.wait(session.id)
        assert (await hf.sessions.get(session.id)).revert is not None
        assert len(world.model.requests) == 1
        await hf.sessions.clear_revert(session.id)
        assert len(await hf.sessions.pending(session.id)) == 1


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"text": " \n"}, "text"),
        ({"text": "x" * (4 * 1024 * 1024 + 1)}, "text"),
        ({"text": "x", "metadata": {"much": "y" * 1024 * 1024}}, "metadata"),
        ({"text": "x", "metadata": {"deep": json.loads("[" * 128 + "]" * 128)}}, "metadata"),
    ],
    ids=["blank", "long", "much metadata", "deep metadata"],
)
async def test_a_synthetic_input_beyond_the_limits_is_refused(world: World, given: dict[str, Any], field: str) -> None:
    """SES-292."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        error = await refused(hf, session, **given)
        assert await hf.sessions.pending(session.id) == []

    assert (error.status, error.body["field"]) == (400, field)


@pytest.mark.parametrize("forked", [False, True], ids=["here", "in a fork of a deleted session"])
async def test_compaction_keeps_a_synthetic_input_without_an_answer(world: World, forked: bool) -> None:
    """SES-291, SES-325, CMP-050: the model reads it word for word, whatever is summarised."""
    world.configure(compaction={"keep": {"tokens": 1}})
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one " * 500)
        await ask(hf, session, "two " * 500)
        world.model.plays(Turn(status=400, error="scripted"))
        await hf.sessions.synthetic(session.id, **GIVEN)
        await hf.sessions.wait(session.id)
        if forked:
            source, session = session, await hf.sessions.fork(session.id, boundary=ForkThrough())
            await hf.sessions.delete(source.id)
        world.model.plays(Turn(text="THE SUMMARY"))
        await hf.sessions.compact(session.id)
        await ask(hf, session, "three")

    said = [text for role, text in world.model.last.said if role == "user"]
    assert said[0].startswith("<conversation-checkpoint>")
    assert said[1:] == [GIVEN["text"], "three"]
