"""Checks a conversation that a plugin has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.llm.request import Message, ToolCallPart, ToolResultPart
from holdfast.schema.codec import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

GROWTH_BYTES = 64 * 1024
"""A conversation may become twice as large, and by this much in any case."""


class InvalidConversation(ValueError):
    """The changed conversation cannot be sent."""


def checked_conversation(changed: Sequence[Message], before: Sequence[Message]) -> Sequence[Message]:
    """The changed messages, or `before` if nothing changed. Raises `InvalidConversation`, or ValidationError for what
    is not a message."""
    messages = tuple(changed)
    if messages == tuple(before):
        return before
    known = {id(message) for message in before}
    messages = tuple(message if id(message) in known else _copied(message) for message in messages)
    if _size(messages) > 2 * _size(before) + GROWTH_BYTES:
        raise InvalidConversation("the conversation became too large")
    if not messages:
        raise InvalidConversation("no message is left")
    _check_calls(messages)
    return messages


def _copied(message: Message) -> Message:
    return msgspec.convert(msgspec.to_builtins(message), Message)


def _size(messages: Sequence[Message]) -> int:
    return sum(len(encode(message)) for message in messages)


def _check_calls(messages: Sequence[Message]) -> None:
    """Every call has one result, after it and before anyone else speaks. Providers refuse anything else."""
    waiting: set[str] = set()
    for message in messages:
        results = {
            part.id for part in message.content if isinstance(part, ToolResultPart) and not part.provider_executed
        }
        if message.role == "tool":
            if not results or not results <= waiting:
                raise InvalidConversation("a tool result without its call")
            waiting -= results
            continue
        if results:
            raise InvalidConversation("a tool result outside of a message of the role tool")
        if waiting and message.role != "system":
            raise InvalidConversation("a call without its result")
        waiting |= {
            part.id for part in message.content if isinstance(part, ToolCallPart) and not part.provider_executed
        }
    if waiting:
        raise InvalidConversation("a call without its result")
