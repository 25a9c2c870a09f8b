"""Handlers of `protocol/trees.py`."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from holdfast.server.handlers.sessions import LAST_SEQUENCE
from holdfast.server.sse import HEARTBEAT

if TYPE_CHECKING:
    from holdfast.protocol import trees as protocol
    from holdfast.schema.tree import SessionTree
    from holdfast.server.types import ApiCall, Frames

SHOWN = 500
"""Sessions of a tree."""
CONNECTED = b'"type":"session.tree.connected"'


async def tree(call: ApiCall) -> SessionTree:
    return await call.runtime.trees.of(call.params.session_id, limit=call.query.limit or SHOWN)


async def tree_events(call: ApiCall) -> Frames:
    query: protocol.TreeEventsQuery = call.query
    after, resumed = query.after, call.headers.get("last-event-id", "")
    if after is None and resumed.isascii() and resumed.isdecimal():
        after = min(int(resumed[:20]), LAST_SEQUENCE)
    return _frames(call, after, replay=query.replay is not False)


async def _frames(call: ApiCall, after: int | None, *, replay: bool) -> Frames:
    tail = call.runtime.tree_tail.follow(call.params.session_id, after=after, replay=replay)
    async with aclosing(tail) as batches:  # type: ignore[type-var]
        async for batch in batches:
            yield b"".join(map(_frame, batch))
            if len(batch) == 1 and CONNECTED in batch[0]:
                yield HEARTBEAT  # live events begin here


def _frame(event: bytes) -> bytes:
    """With the cursor as the id of the frame, which browsers send back when they connect again."""
    if event.startswith(b'{"cursor":'):
        return b"id: %s\ndata: %s\n\n" % (event[10 : event.index(b",")], event)
    return b"data: %s\n\n" % event
