"""Handlers of `protocol/trees.py`."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from holdfast.core.session.errors import InvalidCursor
from holdfast.server.sse import HEARTBEAT, joined

if TYPE_CHECKING:
    from holdfast.protocol import trees as protocol
    from holdfast.schema.tree import SessionTree
    from holdfast.server.types import ApiCall, Frames

SHOWN = 500
"""Sessions of a tree."""
CURSOR = b'{"cursor":"'
CONNECTED = b'"type":"session.tree.connected"'


async def tree(call: ApiCall) -> SessionTree:
    return await call.runtime.trees.of(call.params.session_id, limit=call.query.limit or SHOWN)


async def tree_events(call: ApiCall) -> Frames:
    query: protocol.TreeEventsQuery = call.query
    after, tail = query.after, call.runtime.tree_tail
    if after is not None:
        if not await tail.is_cursor(after):
            raise InvalidCursor
    elif (resumed := call.headers.get("last-event-id")) and await tail.is_cursor(resumed):
        after = resumed
    return _frames(call, after, replay=query.replay is not False)


async def _frames(call: ApiCall, after: str | None, *, replay: bool) -> Frames:
    follow = call.runtime.tree_tail.follow
    tail = follow(call.params.session_id, after=after, replay=replay, holding=call.holding)
    async with aclosing(tail) as batches:  # type: ignore[type-var]
        async for batch in batches:
            for chunk in joined(map(_frame, batch)):
                yield chunk
            if len(batch) == 1 and CONNECTED in batch[0]:
                yield HEARTBEAT  # live events begin here


def _frame(event: bytes) -> bytes:
    """With the cursor as the id of the frame, which browsers send back when they connect again."""
    if event.startswith(CURSOR):
        cursor = event[len(CURSOR) : event.index(b'"', len(CURSOR))]
        return b"id: %s\ndata: %s\n\n" % (cursor, event)
    return b"data: %s\n\n" % event
