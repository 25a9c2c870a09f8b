"""Waiting for a Session in one process while another was given the prompt."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.conftest import Pair, ToolRuntime, user_texts

from holdfast.core.runtime import execution
from holdfast.schema.exceptions import ApiError
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio

GO = Prompt(text="go")


async def admit_only(runtime: ToolRuntime, session: Session) -> None:
    """What a process leaves that dies between the admission and the wake."""
    nothing = asyncio.sleep(0)
    await runtime._inbox.admit(
        session.id, GO, id=None, delivery="steer", location=session.location, wake=True, first=lambda: nothing
    )


async def test_a_wait_that_starts_after_the_admission_sees_the_answer(pair: Pair) -> None:
    """API-436: whichever moment of the other process it falls into; the waiter's own model is never asked."""
    for number in range(1, 21):
        await pair.b.sessions.prompt(pair.session.id, GO)
        await pair.a.sessions.wait(pair.session.id)
        assert len(pair.model_b.requests) == number
        assert await pair.a.sessions.active() == []
    assert pair.model_a.requests == []


async def test_waiting_starts_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-436: the process that admitted the input died before it began. Who waits gets an answer after the time that a
    living process needs at most, and the input stays for a recovery or a prompt."""
    monkeypatch.setattr(execution, "START_SECONDS", 0.1)
    await admit_only(pair.b, pair.session)
    await asyncio.wait_for(pair.a.sessions.wait(pair.session.id), 10)
    assert pair.model_a.requests == pair.model_b.requests == []
    await pair.a.recovery.start()
    await pair.a.sessions.wait(pair.session.id)
    assert [user_texts(request) for request in pair.model_a.requests] == [["go"]]


@pytest.fixture
def no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for an input to be started waits too long."""
    monkeypatch.setattr(execution, "START_SECONDS", 1000)


@pytest.mark.usefixtures("no_deadline")
async def test_an_input_admitted_without_a_wake_is_not_waited_for(pair: Pair) -> None:
    """API-436, SES-058: nobody asked for it to be started."""
    await pair.b.sessions.prompt(pair.session.id, GO, resume=False)
    await asyncio.wait_for(pair.a.sessions.wait(pair.session.id), 10)
    assert pair.model_a.requests == pair.model_b.requests == []


@pytest.mark.usefixtures("no_deadline")
async def test_an_input_that_could_not_start_is_waited_for_once(pair: Pair) -> None:
    """API-436: no model, so the input stays pending; every wait returns at once and tries nothing again."""
    await pair.a.sessions.switch_model(pair.session.id, ModelRef(id="unknown", provider_id="nobody"))
    await pair.a.sessions.prompt(pair.session.id, GO)
    for _ in range(2):
        async with asyncio.timeout(10):
            await pair.a.sessions.wait(pair.session.id)
    assert await pair.a.store.waiting(pair.session.id) == {"steer"}
    with pytest.raises(ApiError):
        await pair.a.sessions.run(pair.session.id)


@pytest.mark.usefixtures("no_deadline")
async def test_an_input_held_back_by_an_interruption_is_not_waited_for(pair: Pair) -> None:
    """API-436, SES-068: a queued input stays for whoever wakes it."""
    gate = pair.model_b.hold(0)
    await pair.b.sessions.prompt(pair.session.id, GO)
    await pair.model_b.seen(1)
    await pair.b.sessions.prompt(pair.session.id, Prompt(text="later"), delivery="queue")
    waiting = asyncio.create_task(pair.a.sessions.wait(pair.session.id))
    await pair.b.sessions.interrupt(pair.session.id)
    await asyncio.wait_for(waiting, 10)
    gate.set()
    assert await pair.a.store.waiting(pair.session.id) == {"queue"}
    assert pair.model_a.requests == []


async def test_an_input_passed_over_by_a_failed_drain_stays_pending(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-436: the other process went on without it and stopped; a waiter decides nothing."""
    monkeypatch.setattr(execution, "START_SECONDS", 0.1)
    await pair.b.sessions.prompt(pair.session.id, GO)
    await pair.b.sessions.wait(pair.session.id)
    gate = pair.model_b.hold(1)
    await pair.b.sessions.prompt(pair.session.id, GO)
    await pair.model_b.seen(2)
    await admit_only_queued(pair)
    await pair.b.execution.interrupt(pair.session.id)
    gate.set()
    await asyncio.wait_for(pair.a.sessions.wait(pair.session.id), 10)
    assert await pair.a.store.waiting(pair.session.id) == {"queue"}
    assert pair.model_a.requests == []


async def admit_only_queued(pair: Pair) -> None:
    nothing = asyncio.sleep(0)
    await pair.b._inbox.admit(
        pair.session.id,
        Prompt(text="later"),
        id=None,
        delivery="queue",
        location=pair.session.location,
        wake=True,
        first=lambda: nothing,
    )
