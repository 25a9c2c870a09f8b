"""The live event stream. It subscribes before the first frame, so nothing after `server.connected` is missed, from any
process on the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.event.relay import TERMINALS
from holdfast.schema.codec import encode
from holdfast.schema.event import EventEnvelope
from holdfast.schema.live_event import ServerConnected
from holdfast.schema.manifest import MANIFEST
from holdfast.server.sse import joined

if TYPE_CHECKING:
    from holdfast.core.event.bus import Announcement
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.server.types import ApiCall, Frames


PUBLIC = frozenset(definition.type for definition in MANIFEST.latest.values() if definition.announced)
"""The public event types; the bus carries private ones too."""
FAREWELL = "global.disposed"
"""The last event of a stream."""


RELAY = "x-holdfast-relay"
"""Header of another server on this database that wants only the events of this process."""
NODE = "x-holdfast-node"
"""Header with the token of another node (`core/session/node_secrets.py`). It admits to that stream and nothing else."""
SIGNATURE = "x-holdfast-signature"
"""Header with the signature of another node that passes on a request for a terminal of this one."""


async def subscribe(call: ApiCall) -> Frames:
    if RELAY in call.headers:
        return _relayed(call.runtime)
    return _frames(call.runtime)


async def _frames(runtime: Runtime) -> Frames:
    async with runtime.log.relay.observe(PUBLIC) as subscription:
        yield b"%s: heartbeat\n\n" % _connected(runtime)
        while batch := await subscription.next():
            last = next((place for place, item in enumerate(batch) if item.type == FAREWELL), None)
            for chunk in joined(b"data: %s\n\n" % item.wire for item in batch[: None if last is None else last + 1]):
                yield chunk
            if last is not None:
                return


async def _relayed(runtime: Runtime) -> Frames:
    """Events of Sessions and terminals of this process only: observing other processes too would make two servers
    forward each other's events endlessly."""
    with runtime.log.bus.subscribe(PUBLIC) as subscription:
        yield _connected(runtime)
        while batch := await subscription.next():
            own = [item.wire for item in batch if _is_shared(item) and not item.relayed]
            for chunk in joined(b"data: %s\n\n" % wire for wire in own):
                yield chunk


def _is_shared(item: Announcement) -> bool:
    return item.aggregate_id is not None or item.type.startswith(TERMINALS)


def _connected(runtime: Runtime) -> bytes:
    connected = EventEnvelope(
        id=runtime.new_event_id(), type="server.connected", data=msgspec.Raw(encode(ServerConnected()))
    )
    return b"data: %s\n\n" % encode(connected)
