"""Sends what a person decided about a request. Sending it again is harmless: a request is answered once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.tui.request_answers import (
    AnswerQuestions,
    CancelForm,
    Recover,
    RejectQuestions,
    ReplyForm,
    ReplyPermission,
)

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.tui.request_answers import Decision


async def send_decision(client: AsyncClient, decision: Decision) -> None:
    """Raises ApiError with status 404 or 409 if somebody else has answered."""
    match decision:
        case ReplyPermission(session_id, id, reply, message, save):
            await client.permissions.reply(session_id, request_id=id, reply=reply, message=message, save=save)
        case AnswerQuestions(session_id, id, answers):
            await client.questions.reply(session_id, request_id=id, answers=answers)
        case RejectQuestions(session_id, id):
            await client.questions.reject(session_id, request_id=id)
        case ReplyForm(session_id, id, answer):
            await client.forms.reply(session_id, form_id=id, answer={**answer})
        case CancelForm(session_id, id):
            await client.forms.cancel(session_id, form_id=id)
        case Recover(session_id, choice):
            await client.sessions.recover(session_id, decision=choice)
