"""Reads messages of a Session, a bounded number at a time.

A cursor stands behind messages that do not change any more: one that is still being written comes again with the next
read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.cli.session_tools.results import Messages, ShownCall, ShownMessage, cut
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.session_message import (
    AssistantMessage,
    ShellMessage,
    TextContent,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolPending,
)

if TYPE_CHECKING:
    from holdfast.cli.session_tools.arguments import Read
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.session_message import SessionMessage

CALL_CHARACTERS = 1000
"""Of the input and of the output of one call."""
MOST_CALLS = 50
LEAST_CHARACTERS = 200
"""What a message gets of itself, however little is left."""

_FORWARDS, _BACKWARDS = ">", "<"
"""How a cursor begins: with a page in the order of the conversation, or in the opposite one."""


async def read_messages(client: AsyncClient, given: Read) -> Messages:
    reading = _Reading(client, given.session)
    place = given.cursor or await reading.before_newest(given.limit)
    stretch = await reading.after(place, given.limit)
    shown = _within(stretch.messages, given.characters)
    more = len(shown) < len(stretch.messages) or await reading.follows(stretch)
    fixed = len(shown) if more or not shown or shown[-1].complete else len(shown) - 1
    if fixed == len(stretch.messages):
        place = stretch.end or place
    elif fixed:
        place = (await reading.after(place, fixed)).end
    return Messages(session=given.session, messages=shown, cursor=place, more=more)


class _Stretch(NamedTuple):
    messages: list[SessionMessage]
    """Oldest first."""
    end: str | None
    """The cursor behind the last one; None if there is none."""


class _Reading:
    def __init__(self, client: AsyncClient, session_id: str) -> None:
        self._sessions = client.sessions
        self._session_id = session_id

    async def before_newest(self, limit: int) -> str | None:
        """The cursor behind which the newest messages stand; None: that is the beginning."""
        newest = await self._sessions.messages(self._session_id, order="desc", limit=limit)
        if newest.next is None:
            return None
        older = await self._sessions.messages(self._session_id, cursor=newest.next, limit=1)
        return _BACKWARDS + older.previous if older.previous is not None else None

    async def after(self, place: str | None, limit: int) -> _Stretch:
        if place is None:
            page = await self._sessions.messages(self._session_id, order="asc", limit=limit)
        elif place[0] in (_FORWARDS, _BACKWARDS):
            page = await self._sessions.messages(self._session_id, cursor=place[1:], limit=limit)
        else:
            raise InvalidRequest("`cursor` is not one that session_read returned", field="cursor")
        if place is not None and place[0] == _BACKWARDS:
            return _Stretch(page.items[::-1], _BACKWARDS + page.previous if page.previous is not None else None)
        return _Stretch(page.items, _FORWARDS + page.next if page.next is not None else None)

    async def follows(self, stretch: _Stretch) -> bool:
        """Whether there are messages after these."""
        return stretch.end is not None and bool((await self.after(stretch.end, 1)).messages)


def _within(messages: list[SessionMessage], characters: int) -> list[ShownMessage]:
    """As many as fit, and at least one, which is cut if it is too long."""
    shown: list[ShownMessage] = []
    for message in messages:
        made = _shown(message, characters if not shown else max(characters, LEAST_CHARACTERS))
        size = _size(made)
        if shown and (size > characters or len(message.text) > characters):
            break
        shown.append(made)
        characters -= size
    return shown


def _shown(message: SessionMessage, characters: int) -> ShownMessage:
    text = cut(message.text, characters)
    if isinstance(message, ShellMessage):
        text = f"$ {message.command}\n{text}"
    if not isinstance(message, AssistantMessage):
        running = isinstance(message, ShellMessage) and message.time.completed is None
        return ShownMessage(id=message.id, type=message.type, text=text, complete=not running)
    parts = [part for part in message.content if isinstance(part, ToolPart)]
    return ShownMessage(
        id=message.id,
        type=message.type,
        text=text,
        complete=message.time.completed is not None,
        calls=[_call(part, min(CALL_CHARACTERS, characters)) for part in parts[:MOST_CALLS]],
        error=cut(message.error.message, CALL_CHARACTERS) if message.error is not None else None,
    )


def _call(part: ToolPart, characters: int) -> ShownCall:
    state = part.state
    given = state.input if isinstance(state, ToolPending) else encode(state.input).decode()
    output = None
    if isinstance(state, ToolCompleted | ToolError):
        texts = (item.text if isinstance(item, TextContent) else f"({item.mime})" for item in state.content)
        output = cut("\n".join(texts), characters) or None
    return ShownCall(
        tool=part.name,
        status=state.status,
        input=cut(given, characters),
        output=output,
        error=cut(state.error.message, characters) if isinstance(state, ToolError) else None,
    )


def _size(message: ShownMessage) -> int:
    calls = (len(call.input) + len(call.output or "") + len(call.error or "") for call in message.calls)
    return len(message.text) + len(message.error or "") + sum(calls)
