"""Events from bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.mcp.errors import TooLarge
from holdfast.mcp.sse import Event, Events

STREAM = (
    b'\xef\xbb\xbf: comment\r\n\r\nid: 1\r\nretry: 250\r\ndata:\r\n\r\nevent: message\rdata: {"a":\rdata: 1}\r\r'
    b"data:x\ndata\nunknown: 7\n\nretry: soon\nid: a\0b\nid: 2\nevent: endpoint\ndata: /messages?x=1:2\n\n"
    b"event: nothing\n\n"
)
EXPECTED = [
    Event("message", b"", "1", 250),
    Event("message", b'{"a":\n1}'),
    Event("message", b"x\n"),
    Event("endpoint", b"/messages?x=1:2", "2"),
]


def test_a_stream_may_be_cut_anywhere() -> None:
    """MCP-060"""
    for cut in range(len(STREAM)):
        events = Events(1000)
        assert [*events.feed(STREAM[:cut]), *events.feed(STREAM[cut:])] == EXPECTED


@given(st.data())
def test_events_do_not_depend_on_the_pieces_they_come_in(data: Any) -> None:
    """MCP-060"""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(STREAM)), max_size=8)))
    pieces = [STREAM[start:end] for start, end in zip([0, *cuts], [*cuts, len(STREAM)], strict=True)]
    events = Events(1000)
    assert [event for piece in pieces for event in events.feed(piece)] == EXPECTED


@pytest.mark.parametrize(
    "stream", [b"x" * 200, b"data: " + b"x" * 200, b"data: " + b"x" * 90 + b"\ndata: " + b"x" * 20]
)
def test_an_event_without_end_is_too_large(stream: bytes) -> None:
    """MCP-069"""
    events = Events(100)

    def feed() -> None:
        for position in range(0, len(stream), 7):
            list(events.feed(stream[position : position + 7]))

    with pytest.raises(TooLarge):
        feed()


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 200 + b"\n\n", b"data: x\n" * 100 + b"\n"])
def test_an_event_in_one_piece_is_too_large_too(stream: bytes) -> None:
    """MCP-069"""
    with pytest.raises(TooLarge):
        list(Events(100).feed(stream))


def test_a_long_id_and_a_long_delay_are_ignored() -> None:
    """MCP-062"""
    stream = b"id: " + b"x" * 5000 + b"\nretry: 99999999999\ndata: y\n\n"
    assert list(Events(10_000).feed(stream)) == [Event("message", b"y")]
