"""What a person decided about a request. The application sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from holdfast.schema.form import FormAnswer
    from holdfast.schema.permission import Reply
    from holdfast.schema.question import Answer


class ReplyPermission(NamedTuple):
    session_id: str
    request_id: str
    reply: Reply
    message: str | None = None
    save: tuple[str, ...] | None = None


class AnswerQuestions(NamedTuple):
    session_id: str
    request_id: str
    answers: tuple[Answer, ...]


class RejectQuestions(NamedTuple):
    session_id: str
    request_id: str


class ReplyForm(NamedTuple):
    session_id: str
    form_id: str
    answer: FormAnswer


class CancelForm(NamedTuple):
    session_id: str
    form_id: str


class Recover(NamedTuple):
    session_id: str
    decision: Literal["continue", "abandon"]


Decision = ReplyPermission | AnswerQuestions | RejectQuestions | ReplyForm | CancelForm | Recover
