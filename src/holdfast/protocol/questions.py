"""Questions from the model to the user."""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.protocol.endpoint import Endpoint, endpoint
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


_OF_SESSION = of_session(
    endpoint(
        "questions.list",
        "GET /question",
        "v2.session.question.list",
        "Pending questions of a Session and its descendants.",
        role="read",
        data=list[QuestionRequest],
    ),
    endpoint(
        "questions.reply",
        "POST /question/{requestID}/reply",
        "v2.session.question.reply",
        "Answer a question of a Session or a descendant.",
        role="approve",
        params=QuestionPath,
        payload=AnswersPayload,
        errors=(QuestionNotFoundError,),
    ),
    endpoint(
        "questions.reject",
        "POST /question/{requestID}/reject",
        "v2.session.question.reject",
        "Reject a question of a Session or a descendant. The turn that asked stops.",
        role="approve",
        params=QuestionPath,
        errors=(QuestionNotFoundError,),
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = (
    *at_location(
        endpoint(
            "questions.list_requests",
            "GET /api/question/request",
            "v2.question.request.list",
            "Pending questions of a Location.",
            role="read",
            location=list[QuestionRequest],
        )
    ),
    *_OF_SESSION,
)
