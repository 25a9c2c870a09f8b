"""Events as clients get them."""

from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest

from holdfast.schema.codec import encode
from holdfast.schema.live_event import ServerConnected, TextDelta
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.session_event import Synthetic
from holdfast.schema.typed_event import DurableData, DurableEvent, LiveData, LiveEvent, decode_event

SYNTHETIC = {"timestamp": 1, "sessionID": "ses_1", "messageID": "msg_1", "text": "note"}


def event(type: str, data: Any, **more: Any) -> bytes:
    return encode({"id": "evt_1", "type": type, **more, "data": data})


def durable(type: str, data: Any, version: int = 1) -> bytes:
    return event(type, data, durable={"aggregateID": "ses_1", "seq": 4, "version": version})


def test_the_unions_are_the_events_that_clients_hear_of() -> None:
    """API-439: neither a type too few nor one too many."""
    announced = [item for item in MANIFEST.latest.values() if item.announced]
    assert set(typing.get_args(DurableData)) == {item.payload for item in announced if item.durable}
    assert set(typing.get_args(LiveData)) == {item.payload for item in announced if not item.durable}


def test_a_payload_is_the_record_of_its_type() -> None:
    """API-439: durable ones have a position, live ones do not."""
    stored = decode_event(durable("session.next.synthetic", SYNTHETIC))
    assert isinstance(stored, DurableEvent)
    assert stored.durable.seq == 4
    assert stored.data == Synthetic(timestamp=1, session_id="ses_1", message_id="msg_1", text="note")
    connected = decode_event(event("server.connected", {}))
    assert isinstance(connected, LiveEvent)
    assert (connected.durable, connected.data) == (None, ServerConnected())


@pytest.mark.parametrize(
    "wire",
    [
        durable("session.next.invented", {"a": 1}),
        durable("session.next.synthetic", {"a": 1}, version=7),
        durable("session.next.turn.dispatched", {"a": 1}),
        event("invented", {"a": 1}),
        event("session.next.synthetic", {"a": 1}),
    ],
    ids=["type", "version", "private", "live", "durable type without a position"],
)
def test_an_event_of_an_unknown_type_keeps_its_raw_payload(wire: bytes) -> None:
    """API-439: an older client follows a newer server."""
    data = decode_event(wire).data
    assert isinstance(data, msgspec.Raw)
    assert bytes(data) == b'{"a":1}'


def test_fields_that_are_not_known_are_passed_over() -> None:
    """API-439: also the mark of a live event in the stream of a Session."""
    delta = {"timestamp": 1, "sessionID": "ses_1", "assistantMessageID": "msg_1", "textID": "t", "delta": "d", "new": 1}
    found = decode_event(event("session.next.text.delta", delta, live=True, more=[]))
    assert isinstance(found.data, TextDelta)
    assert found.data.delta == "d"


def test_a_known_payload_that_does_not_fit_is_refused() -> None:
    """API-311, API-439."""
    with pytest.raises(msgspec.ValidationError):
        decode_event(durable("session.next.synthetic", {"text": 1}))


def test_an_event_encodes_as_it_came() -> None:
    """API-201: what a client passes on is what it got."""
    wire = durable("session.next.synthetic", SYNTHETIC)
    assert encode(decode_event(wire)) == wire
