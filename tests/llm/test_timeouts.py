"""The limit on a whole turn. Those of a connection are tested where connections are, in route/test_network.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from tests.llm.support import HELLO_CHAT, HELLO_CLAUDE, Playback, Played, chat_model, claude, collect, failure, play

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.model import Model
from holdfast.llm.request import make_request
from holdfast.llm.route.retry import Retry
from holdfast.llm.route.transport import HttpResponse, Timeouts
from holdfast.llm.stream import stream

pytestmark = pytest.mark.anyio

SHORT = Timeouts(total=0.05)
MODELS = [pytest.param(chat_model(timeouts=SHORT), id="chat"), pytest.param(claude(timeouts=SHORT), id="claude")]


class Endless(Played):
    """Sends a piece every now and then, for ever."""

    def release(self) -> None:
        pass

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b": still here\n\n"
                await asyncio.sleep(0.005)
        finally:
            self.released = True


class Pausing(Played):
    """Says a part of it, the first half if nothing else was said, and then nothing for ever."""

    part = 0.5

    async def chunks(self) -> AsyncIterator[bytes]:
        async for piece in super().chunks():
            yield piece[: int(len(piece) * self.part)]
        await asyncio.Event().wait()


def is_total(error: LLMError) -> bool:
    return (error.reason, error.kind, error.retryable) == ("Transport", "timeout", False) and "total" in error.message


def test_nothing_is_limited_unless_asked() -> None:
    """LLM-354: but for the time to connect."""
    assert Timeouts() == Timeouts(connect=Timeouts().connect, first_byte=None, idle=None, total=None)


@pytest.mark.parametrize("model", MODELS)
async def test_a_turn_that_never_ends_is_ended(model: Model) -> None:
    """LLM-354: by name, and the connection is let go."""
    response = Endless([])
    assert is_total(await failure(model, response))
    assert (response.closed, response.released) == (1, True)


@pytest.mark.parametrize("model", MODELS)
async def test_waiting_for_the_head_and_for_the_next_attempt_counts(model: Model) -> None:
    """LLM-354"""

    async def never() -> HttpResponse:
        await asyncio.Event().wait()
        raise AssertionError

    assert is_total(await failure(model, Playback(never)))
    with pytest.raises(LLMError) as caught:
        async for _ in stream(
            Playback(Played([b"no"], 503)), model, make_request(prompt="x"), retry=Retry(base_ms=30_000)
        ):
            pass
    assert is_total(caught.value)


@pytest.mark.parametrize("make", [chat_model, claude])
async def test_a_time_limit_does_not_cancel_the_callers_own_work(
    make: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLM-354, LLM-010: the limit ends the turn at its next step, not the caller at its own."""
    model = make(timeouts=Timeouts(total=60))
    response = Pausing([HELLO_CHAT if make is chat_model else HELLO_CLAUDE])
    batches = stream(Playback(response), model, make_request(prompt="x"))
    await anext(batches)
    loop = asyncio.get_running_loop()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + 61)  # the caller took longer than the limit
    await asyncio.sleep(0)
    events, error = await _rest(batches)
    assert error is not None
    assert is_total(error)
    assert events == []
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert response.closed == 1


async def test_a_turn_that_has_ended_cannot_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLM-354, LLM-065: the limit may pass while its connection is still open."""
    response = Pausing([HELLO_CLAUDE])
    response.part = 1.0
    batches = stream(Playback(response), claude(timeouts=Timeouts(total=60)), make_request(prompt="x"))
    batch = await anext(batches)
    assert isinstance(batch[-1], ev.Finish)
    loop = asyncio.get_running_loop()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + 61)
    assert await _rest(batches) == ([], None)
    assert response.closed == 1


async def test_a_turn_within_its_limit_is_not_disturbed() -> None:
    """LLM-354"""
    model = chat_model(timeouts=Timeouts(total=30))
    events = await collect(model, play(HELLO_CHAT, 5))
    assert isinstance(events[-1], ev.Finish)


async def test_a_turn_may_be_continued_and_closed_by_another_task() -> None:
    """LLM-009: an iterator belongs to whoever holds it."""
    model = chat_model(timeouts=Timeouts(total=30))
    response = play(HELLO_CHAT, 30)
    batches = stream(Playback(response), model, make_request(prompt="x"))
    await asyncio.create_task(_next(batches))
    await asyncio.create_task(_next(batches))
    await asyncio.create_task(batches.aclose())
    assert response.closed == 1


async def _rest(batches: AsyncIterator[list[ev.Event]]) -> tuple[list[ev.Event], LLMError | None]:
    events: list[ev.Event] = []
    try:
        async for batch in batches:
            events += batch
    except LLMError as error:
        return events, error
    return events, None


async def _next(batches: AsyncIterator[list[ev.Event]]) -> list[ev.Event]:
    return await anext(batches)
