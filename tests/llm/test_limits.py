"""Limits on one answer: what reaches a limit passes, one byte or block more ends the turn and keeps the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.llm.support import Playback, Played, chat_model, chunk, claude, no_wait, play, sse

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.lifecycle import Emitter
from holdfast.llm.limits import AnswerLimits, AnswerTooLarge, byte_length, cut
from holdfast.llm.model import Model
from holdfast.llm.pace import BURST, RATE, Pace
from holdfast.llm.request import ToolResult, make_request
from holdfast.llm.response import fold
from holdfast.llm.stream import SLICE, stream
from holdfast.llm.text_buffer import PIECES, TextBuffer

pytestmark = pytest.mark.anyio


async def answered(
    model: Model, response: Played, limits: AnswerLimits, **more: Any
) -> tuple[list[ev.Event], LLMError | None]:
    """The events that were handed out, and how the turn failed, if it did."""
    events: list[ev.Event] = []
    request = make_request(prompt="hi")
    try:
        async for batch in stream(Playback(response), model, request, retry=no_wait(), limits=limits, **more):
            events += batch
    except LLMError as error:
        return events, error
    return events, None


def texts(events: Iterable[ev.Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, ev.TextDelta | ev.ReasoningDelta))


def arguments(events: Iterable[ev.Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, ev.ToolInputDelta))


def text_frames(pieces: Iterable[str]) -> bytes:
    return sse(*(chunk({"content": piece}) for piece in pieces), chunk(finish="stop"))


def call_frames(*pieces: str) -> bytes:
    first = {"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}
    calls = [first, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    return sse(*(chunk({"tool_calls": [call]}) for call in calls), chunk(finish="tool_calls"))


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_part_beyond_the_limit_ends_the_turn_and_is_kept_up_to_it(field: str, size: int) -> None:
    """LLM-390"""
    frames = sse(*(chunk({field: "x" * size}) for _ in range(1000 // size)), chunk(finish="stop"))
    sent = size * (1000 // size)
    events, error = await answered(chat_model(), play(frames), AnswerLimits(part_bytes=sent))
    assert error is None
    assert texts(events) == "x" * sent
    response = play(frames)
    events, error = await answered(chat_model(), response, AnswerLimits(part_bytes=sent - 1))
    assert isinstance(error, AnswerTooLarge)
    assert (error.reason, error.kind, error.retryable) == ("InvalidProviderOutput", "limit", False)
    assert f"{sent - 1} bytes (holdfast.answer.part_bytes)" in error.message
    assert texts(events) == "x" * (sent - 1)
    assert (response.closed, response.kept) == (1, 0)


async def test_limits_count_bytes_and_cut_between_characters() -> None:
    """LLM-390"""
    events, error = await answered(chat_model(), play(text_frames(["aé漢😀"])), AnswerLimits(part_bytes=8))
    assert texts(events) == "aé漢"
    assert error is not None


@pytest.mark.parametrize("pieces", [["[" * 100], ["[" * 60, "[" * 40], ["["] * 100])
async def test_arguments_beyond_the_limit_end_the_turn_and_make_no_call(pieces: list[str]) -> None:
    """LLM-391"""
    events, error = await answered(chat_model(), play(call_frames(*pieces)), AnswerLimits(argument_bytes=99))
    assert isinstance(error, AnswerTooLarge)
    assert "the arguments of a call of f may not exceed 99 bytes (holdfast.answer.argument_bytes)" in str(error)
    assert arguments(events) == "[" * 99
    assert not any(isinstance(event, ev.ToolCall) for event in events)
    events, error = await answered(chat_model(), play(call_frames(*pieces)), AnswerLimits(argument_bytes=100))
    assert error is None
    assert any(isinstance(event, ev.ToolCall) for event in events)


def test_arguments_that_come_again_at_the_end_have_the_same_limit() -> None:
    """LLM-391"""
    emit = Emitter(AnswerLimits(argument_bytes=10))
    call = emit.open_call("c", "f")
    with pytest.raises(AnswerTooLarge, match="argument_bytes"):
        emit.close_call(call, arguments='{"a":"' + "x" * 10 + '"}')


async def test_a_turn_beyond_the_limit_ends_although_no_part_is_too_large() -> None:
    """LLM-392"""
    frames = b"".join(
        sse(
            {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": "x" * 300}},
            {"type": "content_block_stop", "index": index},
        )
        for index in range(10)
    )
    events, error = await answered(claude(), play(frames), AnswerLimits(part_bytes=400, turn_bytes=1000))
    assert isinstance(error, AnswerTooLarge)
    assert error.setting == "turn_bytes"
    assert 900 <= len(texts(events)) < 1000, "ids count as well"


def test_ids_names_and_metadata_count_towards_the_size_of_a_turn() -> None:
    """LLM-392: ids, names, metadata and results of hosted calls."""
    large = {"p": {"signature": "s" * 200}}
    hosted = ToolResult(type="json", value={"found": "x" * 200})

    def result(emit: Emitter) -> None:
        emit.add_call("c", "f", {}, hosted=True)
        emit.hosted_result("c", "f", hosted)

    for use in (
        lambda emit: emit.open_text("i" * 200),
        lambda emit: emit.open_text("t", large),
        lambda emit: emit.open_reasoning("r", large),
        lambda emit: emit.open_call("c", "f" * 200),
        lambda emit: emit.add_call("c", "f", {}, metadata=large),
        lambda emit: emit.finish("stop", None, large),
        result,
    ):
        use(Emitter())
        with pytest.raises(AnswerTooLarge, match="turn_bytes"):
            use(Emitter(AnswerLimits(turn_bytes=150)))


async def test_many_tiny_calls_end_the_turn_at_the_limit_of_blocks() -> None:
    """LLM-393"""

    def frames(count: int) -> bytes:
        calls = [{"index": index, "id": f"c{index}", "function": {"name": "f"}} for index in range(count)]
        return sse(*(chunk({"tool_calls": [call]}) for call in calls), chunk(finish="tool_calls"))

    limits = AnswerLimits(blocks=20)
    events, error = await answered(chat_model(), play(frames(20)), limits)
    assert error is None
    assert sum(isinstance(event, ev.ToolCall) for event in events) == 20
    events, error = await answered(chat_model(), play(frames(20_000)), limits)
    assert isinstance(error, AnswerTooLarge)
    assert error.setting == "blocks"
    assert sum(isinstance(event, ev.ToolInputStart) for event in events) == 20


async def test_a_stream_that_never_says_anything_ends() -> None:
    """LLM-394: comments and framing count as bytes of the stream, events without content as silent ones."""
    response = Played([b": nothing\n\n" * 100] * 1000)
    _, error = await answered(chat_model(), response, AnswerLimits(stream_bytes=50_000))
    assert isinstance(error, AnswerTooLarge)
    assert (error.setting, response.read) == ("stream_bytes", 46)
    response = Played([sse(chunk({"role": "assistant"})) * 100] * 1000)
    _, error = await answered(chat_model(), response, AnswerLimits(turn_bytes=50_000))
    assert isinstance(error, AnswerTooLarge)
    assert error.setting == "turn_bytes"
    assert response.read < 20


async def test_events_before_a_frame_beyond_the_limit_are_handed_out() -> None:
    """LLM-363, LLM-390"""
    frames = sse(chunk({"content": "before"})) + b"data: " + b"x" * 5000
    events, error = await answered(chat_model(), play(frames), AnswerLimits(frame_bytes=1000))
    assert isinstance(error, AnswerTooLarge)
    assert (texts(events), error.setting) == ("before", "frame_bytes")


@given(text=st.text(st.characters(codec="utf-8"), max_size=40), size=st.integers(0, 100))
def test_a_cut_text_is_the_longest_beginning_that_fits(text: str, size: int) -> None:
    kept = cut(text, size)
    assert text.startswith(kept)
    assert byte_length(kept) <= size
    if kept != text:
        assert byte_length(text[: len(kept) + 1]) > size


# -- memory and fairness ---------------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=3), max_size=30), st.integers(1, 5))
def test_a_text_buffer_gives_what_was_added(pieces: list[str], every: int) -> None:
    buffer = TextBuffer()
    taken = ""
    for index, piece in enumerate(pieces):
        buffer.add(piece)
        if index % every == 0:
            taken += buffer.take_new()
    assert taken + buffer.take_new() == buffer.whole() == "".join(pieces)


def test_many_small_pieces_are_joined_in_groups() -> None:
    """LLM-395"""
    buffer = TextBuffer()
    for index in range(3 * PIECES):
        buffer.add(f"{index % 10}b")
    assert len(buffer._pieces) + len(buffer._groups) <= 4
    assert len(buffer.whole()) == 6 * PIECES


async def test_a_large_read_is_decoded_in_slices_with_the_same_result() -> None:
    """LLM-395"""
    frames = text_frames([f"word{index} é" for index in range(2000)])
    assert len(frames) > 5 * SLICE
    whole: list[list[ev.Event]] = []
    async for batch in stream(Playback(play(frames)), chat_model(), make_request(prompt="hi")):
        whole.append(batch)
    assert len(whole) > len(frames) // SLICE
    events = [event for batch in whole for event in batch]
    small, _ = await answered(chat_model(), play(frames, 100), AnswerLimits())
    assert fold(events) == fold(small)


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_a_stream_that_is_alone_is_read_at_full_speed() -> None:
    """LLM-395"""
    pace = Pace(lambda: False, Clock())
    assert not any(pace.wait_after(SLICE) for _ in range(10_000))


def test_beside_other_work_a_stream_gets_a_burst_and_then_a_rate() -> None:
    """LLM-395"""
    clock = Clock()
    pace = Pace(lambda: True, clock)
    assert pace.wait_after(BURST) == 0
    assert pace.wait_after(RATE) == 1.0
    clock.time += 1.0
    assert pace.wait_after(RATE // 2) == 0.5
    clock.time += 100.0
    assert pace.wait_after(BURST // 2) == 0, "what was not used for long comes back, up to the burst"
    assert pace.wait_after(BURST) > 0
