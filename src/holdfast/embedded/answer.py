"""The answer to a prompt: the final message, what it cost, and everything that led to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.exceptions import MessageNotFound
from holdfast.schema.record import Record
from holdfast.schema.session import CacheTokens, Session, Tokens
from holdfast.schema.session_message import AssistantMessage, SessionMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.client.generated.async_client import AsyncClient

PAGE = 50


class Answer(Record):
    """The answer to a prompt."""

    session: Session
    """The Session as it was after the answer."""
    message: AssistantMessage
    """The message that ended the work on the prompt."""
    messages: tuple[SessionMessage, ...]
    """Everything from the prompt to that message, oldest first."""
    cost: float
    """The price of the steps among these messages, in US dollars; 0 if the prices of the model are not known."""
    tokens: Tokens
    """The tokens of the same steps."""

    @property
    def text(self) -> str:
        """The text of the final message."""
        return self.message.text


async def read_answer(client: AsyncClient, session_id: str, prompt_id: str, message_id: str) -> Answer:
    """Read the answer that begins with this prompt and ends with this message, whether it is complete or not."""
    messages = await _messages(client, session_id, prompt_id, message_id)
    message = messages[-1] if messages else None
    if not isinstance(message, AssistantMessage):
        raise MessageNotFound(session_id, message_id)  # reverted in the meantime
    steps = [found for found in messages if isinstance(found, AssistantMessage)]
    return Answer(
        session=await client.sessions.get(session_id),
        message=message,
        messages=tuple(messages),
        cost=sum(step.cost or 0.0 for step in steps),
        tokens=_total([step.tokens for step in steps if step.tokens is not None]),
    )


async def _messages(client: AsyncClient, session_id: str, first: str, last: str) -> list[SessionMessage]:
    """The messages between two ids, both included. Read from the newest on, so that the length of the Session does not
    matter."""
    found: list[SessionMessage] = []
    cursor = None
    while not found or found[-1].id != first:
        page = await client.sessions.messages(session_id, limit=PAGE, cursor=cursor)
        for message in page.items:
            if found or message.id == last:
                found.append(message)
            if message.id == first:
                break
        cursor = page.next
        if not page.items or cursor is None:
            break
    return found[::-1]


def _total(spent: Sequence[Tokens]) -> Tokens:
    return Tokens(
        input=sum(tokens.input for tokens in spent),
        output=sum(tokens.output for tokens in spent),
        reasoning=sum(tokens.reasoning for tokens in spent),
        cache=CacheTokens(
            read=sum(tokens.cache.read for tokens in spent), write=sum(tokens.cache.write for tokens in spent)
        ),
    )
