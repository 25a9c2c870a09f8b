"""Server-sent events from bytes: the same frames however the network cuts them."""

from __future__ import annotations

import random
import time

import pytest

from holdfast.schema.sse import FrameTooLarge, SSEFrames

LIMIT = 10_000


def read(*chunks: bytes, limit: int = LIMIT) -> list[bytes]:
    frames = SSEFrames(limit)
    found = [frame for chunk in chunks for frame in frames.feed(chunk)]
    return found + frames.finish()


CASES: dict[str, tuple[bytes, list[bytes]]] = {
    "line feeds": (b"data: one\n\ndata: two\n\n", [b"one", b"two"]),
    "carriage returns": (b"data: one\r\rdata: two\r\r", [b"one", b"two"]),
    "both": (b"data: one\r\n\r\ndata: two\r\n\r\n", [b"one", b"two"]),
    "mixed ends": (b"data: one\r\n\ndata: two\n\r\ndata: three\r\n\r", [b"one", b"two", b"three"]),
    "byte order mark": (b"\xef\xbb\xbfdata: one\n\ndata: two\n\n", [b"one", b"two"]),
    "a mark only at the start": (b"data: one\n\n\xef\xbb\xbfdata: two\n\n", [b"one"]),
    "comments": (b": hello\n\n: keep\ndata: one\n: alive\n\n:\n\ndata: two\n\n", [b"one", b"two"]),
    "other fields": (b"event: ping\nid: 7\nretry: 10\ndata: one\n\nevent: none\n\n", [b"one"]),
    "several data lines": (b"data: one\ndata: two\ndata:\ndata: three\n\n", [b"one\ntwo\n\nthree"]),
    "one space is taken": (b"data:one\n\ndata:  two \n\n", [b"one", b" two "]),
    "empty data": (b"data:\n\ndata: \n\ndata\n\ndata: one\n\n", [b"one"]),
    "many blank lines": (b"\n\n\ndata: one\n\n\n\n\ndata: two\n\n\n", [b"one", b"two"]),
    "unterminated": (b"data: one\n\ndata: two", [b"one", b"two"]),
    "unterminated after a line end": (b"data: one\n\ndata: two\n", [b"one", b"two"]),
    "unterminated after a carriage return": (b"data: one\r\n\r\ndata: two\r", [b"one", b"two"]),
    "characters of several bytes": ("data: żółć 🦀\n\ndata: é\r\n\r\n".encode(), ["żółć 🦀".encode(), "é".encode()]),
    "a colon inside": (b'data: {"a": "b: c"}\n\n', [b'{"a": "b: c"}']),
    "similar names": (b"database: no\ndata: one\n data: no\n\n", [b"one"]),
    "nothing": (b"", []),
    "the end mark": (b"data: one\n\ndata: [DONE]\n\n", [b"one", b"[DONE]"]),
}


@pytest.mark.parametrize("name", CASES)
def test_events_of_one_chunk_are_parsed(name: str) -> None:
    """LLM-361, LLM-248: line ends, comments, several lines of data, a mark at the start, an unterminated last event."""
    stream, expected = CASES[name]
    assert read(stream) == expected


@pytest.mark.parametrize("name", CASES)
def test_every_cut_gives_the_same(name: str) -> None:
    """LLM-361: cut in two at each byte, and fed byte by byte."""
    stream, expected = CASES[name]
    for cut in range(len(stream) + 1):
        assert read(stream[:cut], stream[cut:]) == expected, f"cut at {cut}"
    assert read(*(stream[index : index + 1] for index in range(len(stream)))) == expected


def test_random_cuts_of_a_long_stream() -> None:
    """LLM-361: a hundred events with all kinds of line ends, cut at random places, empty chunks among them."""
    chance = random.Random(11)
    expected = [f"event {number} é".encode() for number in range(100)]
    ends = [b"\n\n", b"\r\n\r\n", b"\n\r\n", b"\n: comment\n\n"]
    stream = b"".join(b"data: " + text + chance.choice(ends) for text in expected)
    for _ in range(50):
        cuts = sorted(chance.choices(range(len(stream)), k=chance.randrange(1, 60)))
        chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
        assert read(*chunks) == expected


def test_a_frame_is_delivered_as_soon_as_it_ends() -> None:
    """LLM-361: nothing waits for the next event once the blank line is there."""
    frames = SSEFrames(LIMIT)
    assert frames.feed(b"data: one\n") == []
    assert frames.feed(b"\n") == [b"one"]
    assert frames.feed(b"data: two\r\n\r\n") == [b"two"]
    assert frames.feed(b"data: three\n\ndata: fo") == [b"three"]
    assert frames.finish() == [b"fo"]
    assert frames.finish() == []


@pytest.mark.parametrize("size", [1, 7, 100])
def test_an_event_without_end_is_refused_at_the_limit(size: int) -> None:
    """LLM-363: however small the pieces and however many lines; what stays below it passes."""
    line = b"data: " + b"x" * 14 + b"\n"
    stream = line * 5
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert len(read(*chunks, limit=len(stream))) == 1
    with pytest.raises(FrameTooLarge):
        read(*chunks, limit=len(stream) - 1)


def test_events_before_one_that_is_too_long_count() -> None:
    """LLM-363: also when they arrived together; the next look at the stream says what is wrong."""
    for proceed in (lambda frames: frames.feed(b"x"), SSEFrames.finish):
        frames = SSEFrames(20)
        assert frames.feed(b"data: one\n\ndata: " + b"x" * 30) == [b"one"]
        with pytest.raises(FrameTooLarge):
            proceed(frames)


def test_the_limit_is_for_one_event_not_for_the_stream() -> None:
    """LLM-363."""
    assert len(read(*[b"data: 123456\n\n"] * 1000, limit=20)) == 1000


def test_the_cost_is_linear_in_the_bytes() -> None:
    """LLM-364: half a megabyte in one event of many short lines, each its own chunk, takes no noticeable time."""
    lines = [b"data: " + b"x" * 100 + b"\n"] * 5_000
    before = time.process_time()
    (frame,) = read(*lines, b"\n", limit=10_000_000)
    assert len(frame) == 101 * 5_000 - 1
    assert time.process_time() - before < 0.5


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_comments_are_counted_however_they_arrive(size: int) -> None:
    """API-435: heartbeats are comments; one that stands beside data is none of them."""
    text = b": heartbeat\n\ndata: 1\n\n: heartbeat\r\n\r\n: with\ndata: 2\n\n: heartbeat\n\n"
    frames = SSEFrames(1000)
    found = [data for start in range(0, len(text), size) for data in frames.feed(text[start : start + size])]
    assert (found, frames.comments) == ([b"1", b"2"], 3)
