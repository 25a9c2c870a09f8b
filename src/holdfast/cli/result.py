"""The result of `holdfast run --json`: one object that says what became of the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.schema.record import Record
from holdfast.schema.session import CacheTokens, Tokens
from holdfast.schema.session_message import AssistantMessage, TextPart
from holdfast.schema.tree import TreeTotal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.answer import Answer
    from holdfast.client.generated.async_client import AsyncClient

NO_REPLY = "no-reply"


class Result(Record):
    session_id: str
    outcome: str
    """That of the Session's last activity, or `no-reply` if no answer was asked for."""
    text: str | None = None
    """The last text of the answer."""
    structured: Any = UNSET
    """The value of the answer, if a format was asked for."""
    cost: float
    tokens: Tokens
    """Of all steps of the answer."""
    error: str | None = None
    total: TreeTotal | None = None
    """Of the Session and its subagents since they were created, if it has any."""
    denied: tuple[str, ...] | None = None
    """Permission requests that were denied, if any: the command exits with 4."""


def with_denied(result: Result, denied: Sequence[str]) -> Result:
    return replace(result, denied=tuple(denied)) if denied else result


async def result_of(
    client: AsyncClient,
    session_id: str,
    answer: Answer,
    *,
    replies: bool,
    paused: str | None = None,
    total: TreeTotal | None = None,
) -> Result:
    """`paused` is why the Session waits for a budget and is not idle."""
    text: str | None = None
    structured: Any = UNSET
    if answer.message_id is not None:
        message = await client.sessions.message(session_id, message_id=answer.message_id)
        if isinstance(message, AssistantMessage):
            text = "".join(part.text for part in message.content if isinstance(part, TextPart))
            structured = message.structured
    outcome: str = NO_REPLY
    if replies:
        outcome = "waiting" if paused is not None else (await client.sessions.outcome(session_id)).type
    used = answer.tokens
    return Result(
        session_id=session_id,
        outcome=outcome,
        text=text,
        structured=structured,
        cost=answer.cost,
        tokens=Tokens(
            input=used["input"],
            output=used["output"],
            reasoning=used["reasoning"],
            cache=CacheTokens(read=used["read"], write=used["write"]),
        ),
        error=(paused or answer.problem) if replies else None,
        total=total,
    )
