"""Answers the live stream: installed before the first frame, so nothing after `server.connected` is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.schema.codec import encode
from holdfast.schema.event import Event
from holdfast.schema.live_event import ServerConnected
from holdfast.schema.manifest import MANIFEST

if TYPE_CHECKING:
    from holdfast.core.runtime import Runtime
    from holdfast.server.types import Call, Frames


PUBLIC = frozenset(definition.type for definition in MANIFEST.latest.values() if definition.announced)
"""The bus carries private events too; of those nobody outside hears."""
FAREWELL = "global.disposed"
"""Nothing follows it, whatever still happens."""


async def subscribe(call: Call) -> Frames:
    return _frames(call.runtime)


async def _frames(runtime: Runtime) -> Frames:
    connected = Event(id=runtime.new_event_id(), type="server.connected", data=msgspec.Raw(encode(ServerConnected())))
    with runtime.log.bus.subscribe(PUBLIC) as subscription:
        yield b"data: %s\n\n: heartbeat\n\n" % encode(connected)
        while batch := await subscription.next():
            last = next((place for place, item in enumerate(batch) if item.type == FAREWELL), None)
            yield b"".join([b"data: %s\n\n" % item.wire for item in batch[: None if last is None else last + 1]])
            if last is not None:
                return
