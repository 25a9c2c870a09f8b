"""Handlers of the rendered conversation in `protocol/inspection.py`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.session.errors import InvalidCursor, MessageNotFound
from holdfast.core.session.stored_messages import AFTER_ALL, BEFORE_ALL
from holdfast.schema.exceptions import NotFound
from holdfast.schema.session_message import AssistantMessage, ToolPart, ToolRunning
from holdfast.server.call_preview import preview_of
from holdfast.server.conversation import Conversation
from holdfast.server.cursor import MessageCursor, read_cursor, write_cursor
from holdfast.server.render.call_body import call_body as rendered_body
from holdfast.server.types import ApiCall, PageOf

if TYPE_CHECKING:
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.core.session.stored_messages import StoredMessage
    from holdfast.core.session.stored_sessions import Direction, Order
    from holdfast.protocol import inspection as protocol
    from holdfast.schema.rendered import CallBody, TextFormat
    from holdfast.server.caller import Caller
    from holdfast.server.types import Frames

PAGE = 50
PAST = 200


async def entries(call: ApiCall) -> PageOf:
    query: protocol.RenderedQuery = call.query
    assert call.session is not None
    if query.at is not None:
        return await _past(call, query.at)
    session, conversation = call.session, Conversation(call.runtime, query.format or "html")
    order: Order = query.order or "desc"
    limit, anchor, direction = query.limit, None, "next"
    if query.cursor:
        if query.order is not None:
            raise InvalidCursor("A cursor already carries its order")
        cursor = read_cursor(MessageCursor, query.cursor)
        order, direction, limit = cursor.order, cursor.direction, limit or cursor.limit
        try:
            anchor = (await call.runtime.sessions.message(session.id, cursor.id)).seq
        except MessageNotFound as error:
            raise InvalidCursor from error
    limit = min(limit or PAGE, 200)
    found = await call.runtime.sessions.messages(
        session.id, order=order, limit=limit, anchor=anchor, direction="previous" if direction == "previous" else "next"
    )
    if not found and anchor is not None:
        return PageOf([], None, None)
    older = (order == "desc") == (direction == "next")
    sequences = [message.seq for message in found]
    if older:
        after = min(sequences) if len(found) == limit else BEFORE_ALL
        before = AFTER_ALL if anchor is None else anchor
    else:
        after = BEFORE_ALL if anchor is None else anchor
        before = max(sequences) if len(found) == limit else AFTER_ALL
    shown = await conversation.page(session, found, after=after, before=before)

    def link(message: StoredMessage, direction: Direction) -> str:
        return write_cursor(MessageCursor(id=message.id, order=order, direction=direction, limit=limit))

    items = shown[::-1] if order == "desc" else shown
    if not found:
        return PageOf([*items], None, None)
    return PageOf([*items], link(found[0], "previous"), link(found[-1], "next"))


async def call(call: ApiCall) -> CallBody:
    params: protocol.CallPath = call.params
    form: TextFormat = call.query.format or "html"
    place = params.session_id, params.message_id, params.call_id
    return await call_body(call.runtime, *place, reader=call.caller, form=form)


async def view(call: ApiCall) -> Frames:
    from holdfast.server.web import stream  # brings everything that renders

    query: protocol.ViewQuery = call.query
    return stream.text_frames(call.runtime, call.params.session_id, query.after)


async def call_body(
    runtime: Runtime, session_id: str, message_id: str, call_id: str, *, reader: Caller, form: TextFormat = "html"
) -> CallBody:
    """The body of one tool call, as far as the reader may see it. Raises SessionNotFound, MessageNotFound and
    NotFound."""
    session = await runtime.store.get(session_id)
    message = (await runtime.store.message(session_id, message_id)).decode()
    content = message.content if isinstance(message, AssistantMessage) else ()
    # A provider may repeat a call id in one message; the newest is meant.
    part = next((part for part in reversed(content) if isinstance(part, ToolPart) and part.id == call_id), None)
    if part is None:
        raise NotFound(f"No tool call {call_id[:200]} in message {message_id}")
    preview = None
    if isinstance(part.state, ToolRunning):
        preview = await preview_of(runtime, session, message_id, part, reader)
    return await asyncio.to_thread(rendered_body, part, preview=preview, form=form)


async def _past(call: ApiCall, seq: int) -> PageOf:
    assert call.session is not None
    past = await call.runtime.inspection.past(call.session.id, seq, call.query.limit or PAST)
    shown = await Conversation(call.runtime, call.query.format or "html").past(call.session, past)
    return PageOf(shown if call.query.order == "asc" else shown[::-1], None, None)
