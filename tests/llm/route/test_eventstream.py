"""Binary frames: any chunking gives the same, and whatever does not add up is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.llm.aws_frames import event, exception, frame, raw_frame

from holdfast.llm.errors import LLMError
from holdfast.llm.route.eventstream import AwsFrames
from holdfast.schema.codec import decode_any
from holdfast.schema.sse import FrameTooLarge

LIMIT = 16 * 1024 * 1024


def documents(data: bytes, sizes: Sequence[int] = ()) -> list[dict[str, Any]]:
    frames = AwsFrames(LIMIT)
    found = []
    for size in sizes:
        found += frames.feed(data[:size])
        data = data[size:]
    found += frames.feed(data)
    found += frames.finish()
    return [decode_any(item) for item in found]


PADDED = b'{"p":"abc"}'
STOP = event("messageStop", PADDED)
STREAM = event("messageStart", PADDED) + event("contentBlockDelta", '{"t":"é€"}'.encode()) + STOP
FOUND = [
    {"kind": "event", "type": "messageStart", "payload": '{"p":"abc"}'},
    {"kind": "event", "type": "contentBlockDelta", "payload": '{"t":"é€"}'},
    {"kind": "event", "type": "messageStop", "payload": '{"p":"abc"}'},
]


def test_frames_are_read_by_their_two_lengths() -> None:
    """LLM-294: total length, header length, prelude checksum, headers, payload, message checksum."""
    assert documents(STREAM) == FOUND


@given(st.lists(st.integers(1, 40)))
def test_the_network_may_cut_anywhere(sizes: list[int]) -> None:
    """LLM-294: frames may be split or merged anywhere."""
    assert documents(STREAM, sizes) == FOUND


def test_frames_are_read_byte_by_byte() -> None:
    assert documents(STREAM, [1] * len(STREAM)) == FOUND


def test_a_frame_of_the_service_with_padding_is_decoded() -> None:
    """LLM-294: a frame as the service sent it, padding and all."""
    recorded = bytes.fromhex(
        "000000870000005"
        "6e4ec472a0b3a6576656e742d74797065070010636f6e74656e74426c6f636b53746f700d3a636f6e74656e742d74797065070010"
        "6170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d747970650700056576656e747b22636f6e74656e74426c6f636b"
        "496e646578223a302c2270223a22616263227dcba9ebb7"
    )
    assert documents(recorded) == [
        {"kind": "event", "type": "contentBlockStop", "payload": '{"contentBlockIndex":0,"p":"abc"}'}
    ]


def test_an_event_without_payload_is_skipped() -> None:
    """LLM-295."""
    assert documents(event("messageStart", b"") + STOP) == FOUND[2:]


def test_exceptions_and_errors_keep_their_names() -> None:
    """LLM-296: `:exception-type`; `:error-code` and `:error-message`."""
    error = frame({":message-type": "error", ":error-code": "InternalError", ":error-message": "broken"}, b"")
    assert documents(exception("throttlingException", {"message": "slow"}) + error) == [
        {"kind": "exception", "type": "throttlingException", "payload": '{"message":"slow"}'},
        {"kind": "error", "type": "InternalError", "payload": "broken"},
    ]


def test_an_exception_is_named_by_its_own_header() -> None:
    both = frame({":event-type": "chunk", ":message-type": "exception", ":exception-type": "validationException"})
    assert [item["type"] for item in documents(both)] == ["validationException"]


def test_headers_of_every_type_are_stepped_over() -> None:
    """LLM-294: only strings are read."""
    typed: dict[str, str | bytes] = {
        "true": b"\x00",
        "false": b"\x01",
        "byte": b"\x02\x01",
        "short": b"\x03\x00\x01",
        "int": b"\x04" + bytes(4),
        "long": b"\x05" + bytes(8),
        "bytes": b"\x06\x00\x03abc",
        "time": b"\x08" + bytes(8),
        "uuid": b"\x09" + bytes(16),
    }
    assert documents(frame({**typed, ":event-type": "messageStop"}, PADDED)) == FOUND[2:]


@pytest.mark.parametrize("position", [0, 5, 9])
def test_a_damaged_prelude_is_refused(position: int) -> None:
    """LLM-294: the first checksum covers the lengths, so that a wrong one is never waited for."""
    assert "prelude" in str(refusal(damaged(STOP, position)))


@pytest.mark.parametrize("position", [12, 60, -10, -1])
def test_a_damaged_message_is_refused(position: int) -> None:
    """LLM-294."""
    assert "checksum" in str(refusal(damaged(STOP, position)))


@pytest.mark.parametrize(
    "data",
    [
        raw_frame(b"", b"", total=0),
        raw_frame(b"", b"", total=15),
        raw_frame(b"", b"abc", header_length=4),
        raw_frame(b"\x05:even", b""),
        raw_frame(b"\x01a\x07\x00\x09short", b""),
        raw_frame(b"\x01a\x0a", b""),
        raw_frame(b"\x01a\x05\x00", b""),
        raw_frame(b"\x01\xff\x00", b""),
    ],
    ids=[
        "nothing",
        "too short",
        "headers longer than the frame",
        "cut name",
        "cut value",
        "unknown type",
        "cut number",
        "name",
    ],
)
def test_lengths_and_headers_that_do_not_add_up_are_refused(data: bytes) -> None:
    """LLM-294."""
    assert refusal(data).reason == "InvalidProviderOutput"


def test_a_stream_that_ends_inside_a_frame_was_truncated() -> None:
    """LLM-343."""
    error = refusal(STREAM[:-1])
    assert (error.reason, error.kind) == ("Transport", "truncated")


def test_a_frame_beyond_the_limit_is_not_collected() -> None:
    """LLM-363: refused at its prelude."""
    frames = AwsFrames(1000)
    with pytest.raises(FrameTooLarge):
        frames.feed(raw_frame(b"", bytes(1000))[:12])
    assert AwsFrames(1016).feed(frame({":event-type": "x"}, b"1" * 900))


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("position", [0, -1])
def test_frames_before_a_damaged_one_count_however_they_arrived(position: int, size: int) -> None:
    """LLM-294"""
    frames, found = AwsFrames(LIMIT), []
    data = STREAM + damaged(STOP, position)

    def read() -> None:
        for start in range(0, len(data), size):
            found.extend(frames.feed(data[start : start + size]))
        frames.finish()

    with pytest.raises(LLMError, match="checksum"):
        read()
    assert [decode_any(item) for item in found] == FOUND


def test_frames_before_one_that_is_too_long_count() -> None:
    """LLM-363"""
    frames = AwsFrames(1000)
    assert len(frames.feed(STOP + raw_frame(b"", bytes(1000)))) == 1
    with pytest.raises(FrameTooLarge):
        frames.finish()


@given(st.binary(max_size=200), st.integers(0, 200))
def test_garbage_is_an_error_of_ours(garbage: bytes, at: int) -> None:
    data = STREAM[:at] + garbage + STREAM[at:]
    with contextlib.suppress(LLMError):
        documents(data)


def damaged(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 0x40
    return bytes(changed)


def refusal(data: bytes) -> LLMError:
    with pytest.raises(LLMError) as caught:
        documents(data)
    return caught.value
