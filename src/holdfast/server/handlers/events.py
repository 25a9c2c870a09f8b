"""Answers the live stream: installed before the first frame, so nothing after `server.connected` is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.codec import encode
from holdfast.schema.event import Event
from holdfast.schema.live_event import ServerConnected

if TYPE_CHECKING:
    from holdfast.core.event.bus import Subscription
    from holdfast.server.types import Call, Frames

import msgspec


async def subscribe(call: Call) -> Frames:
    subscription = call.runtime.log.bus.subscribe()
    connected = Event(
        id=call.runtime.new_event_id(), type="server.connected", data=msgspec.Raw(encode(ServerConnected()))
    )
    return _frames(subscription, encode(connected))


async def _frames(subscription: Subscription, connected: bytes) -> Frames:
    with subscription:
        yield b"data: %s\n\n: heartbeat\n\n" % connected
        while batch := await subscription.next():
            yield b"".join([b"data: %s\n\n" % item.wire for item in batch])
