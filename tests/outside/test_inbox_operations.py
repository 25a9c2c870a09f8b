"""Pending inputs, listed and changed with the operations of OpenCode 2.0."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.conftest import Machine, Ran, rows
from tests.outside.scripted_provider import PATIENCE, Turn
from tests.outside.world import World, types

from holdfast import ApiError, Holdfast, ModelRef, PromptInput, Session
from holdfast.schema.inbox import InboxUser

pytestmark = pytest.mark.anyio


async def refused(work: Any) -> tuple[int, str]:
    with pytest.raises(ApiError) as failure:
        await work
    return failure.value.status, str(failure.value.code)


async def admit(hf: Holdfast, session: Session, **deliveries: Any) -> None:
    for text, delivery in deliveries.items():
        await hf.sessions.prompt(session.id, id=f"msg_{text}", text=text, delivery=delivery, resume=False)


async def test_pending_inputs_are_listed_in_the_order_of_admission(world: World) -> None:
    """API-486: with the whole prompt as payload."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, id="msg_a", text="a", system="x", delivery="queue", resume=False)
        await admit(hf, session, b="steer")
        first, second = await hf.sessions.inbox(session.id)

        assert (first.id, first.session_id, first.delivery) == ("msg_a", session.id, "queue")
        assert isinstance(first, InboxUser)
        assert (first.payload.text, first.payload.options and first.payload.options.system) == ("a", "x")
        assert (second.id, second.delivery) == ("msg_b", "steer")


async def test_a_cancelled_input_stays_cancelled(world: World) -> None:
    """API-486, SES-045: a second time is a conflict, unlike at `/pending`; so is one that was promoted."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        other = await hf.sessions.create()
        await admit(hf, session, a="steer", b="steer")
        await hf.sessions.cancel_input(session.id, inbox_id="msg_a")
        assert await refused(hf.sessions.cancel_input(session.id, inbox_id="msg_a")) == (409, "ConflictError")
        await hf.sessions.withdraw(session.id, message_id="msg_a")
        await hf.sessions.run(session.id)
        assert await refused(hf.sessions.cancel_input(session.id, inbox_id="msg_b")) == (409, "ConflictError")
        for id in ("msg_none", "msg_b"):
            where = other.id if id == "msg_b" else session.id
            assert await refused(hf.sessions.cancel_input(where, inbox_id=id)) == (404, "MessageNotFoundError")
    assert world.model.last.said == [("user", "b")]


async def test_a_queued_input_that_is_steered_joins_and_wakes(world: World) -> None:
    """SES-301: an input that was admitted without a wake starts; the others of its delivery stay."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await admit(hf, session, a="queue", b="queue")
        await hf.sessions.steer_input(session.id, inbox_id="msg_b")
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        assert [message.id for message in await hf.sessions.context(session.id)][:1] == ["msg_b"]
        assert await hf.verify() == []
    assert world.model.requests[0].said == [("user", "b")]


async def test_a_steer_that_is_queued_waits_until_the_session_would_go_idle(world: World) -> None:
    """SES-301, SES-053: put off during a turn, it is the next activity and does not join this one."""
    silent = asyncio.Event()
    world.model.plays(Turn(text="first", begin=silent), Turn(text="second"), Turn(text="third"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, text="go")
        await world.model.asked(1)
        await hf.sessions.prompt(session.id, id="msg_a", text="a")
        await hf.sessions.prompt(session.id, id="msg_b", text="b")
        await hf.sessions.queue_input(session.id, inbox_id="msg_a")
        silent.set()
        await hf.sessions.wait(session.id)
    told = [[text for role, text in request.said if role == "user"] for request in world.model.requests]
    assert told == [["go"], ["go", "b"], ["go", "b", "a"]]


async def test_a_change_that_changes_nothing_is_a_conflict(world: World) -> None:
    """SES-301, API-486."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await admit(hf, session, s="steer", q="queue", gone="queue")
        await hf.sessions.cancel_input(session.id, inbox_id="msg_gone")
        steer, queue = hf.sessions.steer_input, hf.sessions.queue_input
        for work in (
            steer(session.id, inbox_id="msg_s"),
            queue(session.id, inbox_id="msg_q"),
            steer(session.id, inbox_id="msg_gone"),
        ):
            assert await refused(work) == (409, "ConflictError")
        assert await refused(steer(session.id, inbox_id="msg_none")) == (404, "MessageNotFoundError")
        await hf.sessions.run(session.id)
        assert await refused(queue(session.id, inbox_id="msg_s")) == (409, "ConflictError")


async def test_a_changed_delivery_is_durable_and_not_public(world: World) -> None:
    """SES-301, EVT-044, EVT-061: it survives a restart and a rebuild; the public stream does not show it."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await admit(hf, session, a="steer")
        await hf.sessions.queue_input(session.id, inbox_id="msg_a")
        assert await types(hf, session) == ["prompt.admitted"]
    async with world.host() as hf:
        assert [item.delivery for item in await hf.sessions.inbox(session.id)] == ["queue"]
        await hf.rebuild()
        assert [item.delivery for item in await hf.sessions.inbox(session.id)] == ["queue"]
        assert await hf.verify() == []


async def test_a_retry_after_a_changed_delivery_gives_the_receipt(world: World) -> None:
    """SES-302, SES-038: what counts is what the caller sent, before and after promotion."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await admit(hf, session, a="queue")
        await hf.sessions.steer_input(session.id, inbox_id="msg_a")
        await hf.sessions.wait(session.id)
        again = await hf.sessions.prompt(session.id, id="msg_a", text="a", delivery="queue", resume=False)
        assert (again.delivery, again.promoted_seq is not None) == ("steer", True)
        other = hf.sessions.prompt(session.id, id="msg_a", text="a", delivery="steer", resume=False)
        assert await refused(other) == (409, "ConflictError")


def test_the_command_line_lists_and_changes_pending_inputs(holdfast: Machine, here: Callable[..., Ran]) -> None:
    """API-492: `--steer` shows the answer of the input that it lets in."""

    async def prepare() -> str:
        async with holdfast.host() as hf:
            session = await hf.sessions.create(model=ModelRef(id="echo", provider_id="demo"))
            await admit(hf, session, a="queue", b="steer", c="queue")
            return session.id

    session = asyncio.run(prepare())
    line = ("sessions", "inbox", session)
    assert [[row[0], *row[2:]] for row in rows(here(*line))] == [
        ["msg_a", "queue", "a"],
        ["msg_b", "steer", "b"],
        ["msg_c", "queue", "c"],
    ]
    assert here(*line, "--cancel", "msg_c").code == 0
    assert here(*line, "--queue", "msg_b").code == 0
    assert here(*line, "--queue", "msg_a", "--cancel", "msg_b").code == 2
    steered = here(*line, "--steer", "msg_a")
    assert (steered.code, bool(steered.out)) == (0, True), steered
    assert "already" in here(*line, "--cancel", "msg_a").complaint


def test_the_command_line_lets_in_an_input_of_any_kind(holdfast: Machine, here: Callable[..., Ran]) -> None:
    """API-492: a synthetic input is answered like a prompt; for a prompt that asks for no answer none is missed."""

    async def prepare() -> tuple[str, str]:
        async with holdfast.host() as hf:
            session = await hf.sessions.create(model="demo/echo")
            synthetic: dict[str, Any] = {"text": "the build failed", "delivery": "queue", "resume": False}
            await hf.sessions.synthetic(session.id, id="msg_a", **synthetic)
            other = await hf.sessions.create(model="demo/echo")
            quiet = PromptInput(text="a fact", no_reply=True)
            await hf.sessions.prompt(other.id, prompt=quiet, id="msg_b", delivery="queue", resume=False)
            return session.id, other.id

    session, other = asyncio.run(prepare())
    silent = here("sessions", "inbox", other, "--steer", "msg_b")
    assert (silent.code, silent.out) == (0, ""), silent
    answered = here("sessions", "inbox", session, "--steer", "msg_a")
    assert (answered.code, bool(answered.out)) == (0, True), answered
