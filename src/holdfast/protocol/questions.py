"""Questions that a model asks a person."""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.protocol.endpoint import Endpoint, Envelope
from holdfast.protocol.scope import at_location, of_session
from holdfast.schema.errors import QuestionNotFoundError
from holdfast.schema.ids import SessionIDField
from holdfast.schema.question import Answer, QuestionIDField, QuestionRequest
from holdfast.schema.record import Record


class QuestionPath(Record):
    session_id: SessionIDField
    request_id: QuestionIDField


class AnswersPayload(Record):
    """One list of labels per question."""

    answers: Annotated[tuple[Answer, ...], msgspec.Meta(max_length=1_000)]


_OF_SESSION = (
    Endpoint(
        group="questions",
        name="list",
        operation="v2.session.question.list",
        method="GET",
        path="/question",
        summary="What waits for an answer in a Session.",
        envelope=Envelope.DATA,
        success=list[QuestionRequest],
    ),
    Endpoint(
        group="questions",
        name="reply",
        operation="v2.session.question.reply",
        method="POST",
        path="/question/{requestID}/reply",
        summary="Answer a question.",
        params=QuestionPath,
        payload=AnswersPayload,
        envelope=Envelope.VOID,
        errors=(QuestionNotFoundError,),
    ),
    Endpoint(
        group="questions",
        name="reject",
        operation="v2.session.question.reject",
        method="POST",
        path="/question/{requestID}/reject",
        summary="Do not answer: the turn stops.",
        params=QuestionPath,
        envelope=Envelope.VOID,
        errors=(QuestionNotFoundError,),
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = (
    at_location(
        Endpoint(
            group="questions",
            name="list_requests",
            operation="v2.question.request.list",
            method="GET",
            path="/api/question/request",
            summary="What waits for an answer in a Location.",
            envelope=Envelope.LOCATION,
            success=list[QuestionRequest],
        )
    ),
    *map(of_session, _OF_SESSION),
)
