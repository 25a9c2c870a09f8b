"""Questions of one Location: asked by a model's tool, answered or dismissed by a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.core.permission.requests import Requests, TooManyRequests, Unreachable
from holdfast.core.question.errors import (
    NOBODY_TO_ASK,
    TOO_MANY_WAIT,
    Dismissed,
    InvalidAnswers,
    QuestionNotFound,
    Unanswerable,
)
from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.live_event import QuestionAskedLive, QuestionRejectedLive, QuestionRepliedLive
from holdfast.schema.question import Answer, QuestionRequest
from holdfast.schema.record import Record
from holdfast.schema.session_event import QuestionAsked, QuestionRejected, QuestionReplied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.permission.requests import RequestServices
    from holdfast.core.session.ancestors import Ancestors
    from holdfast.schema.question import Question, QuestionTool

ANSWER_CHARACTERS = 4_000


class QuestionAnswer(Record):
    """How the end of a question is stored: answers, or who dismissed it."""

    answers: tuple[Answer, ...] | None = None
    rejected: str | None = None


class Questions(Requests[QuestionRequest, QuestionAnswer]):
    """Unless `unattended` is `wait`, no question is asked: there is nobody to answer it."""

    kind = "question"
    request_type = QuestionRequest
    answer_type = QuestionAnswer
    deleted = QuestionAnswer(rejected="interrupted")

    def __init__(self, services: RequestServices, ancestors: Ancestors) -> None:
        super().__init__(services)
        self._ancestors = ancestors

    async def ask(
        self, session_id: str, questions: Sequence[Question], tool: QuestionTool | None = None
    ) -> tuple[Answer, ...]:
        """Wait for the answers and return them. Raises Dismissed or Unanswerable."""
        if not questions:
            raise ValueError("a request needs at least one question")
        if not await self._database.fetch("session.exists", {"id": session_id}):
            raise SessionNotFound(session_id)
        if self.unattended != "wait":
            raise Unanswerable(NOBODY_TO_ASK)
        request = QuestionRequest(
            id=self._ids.of("que"),
            session_id=session_id,
            questions=tuple(questions),
            tool=tool,
            ancestors=await self._ancestors.ids(session_id),
        )
        asked = QuestionAsked(
            timestamp=self._clock.now(),
            session_id=session_id,
            request=request,
            resumable=True if tool is not None and tool.message_id else None,
        )
        try:
            answer = await self.wait(request, asked)
        except TooManyRequests as error:
            raise Unanswerable(TOO_MANY_WAIT) from error
        except Unreachable as error:
            raise Dismissed(request.id) from error
        if answer.answers is None:
            raise Dismissed(request.id)
        return answer.answers

    async def reply(self, session_id: str, request_id: str, answers: Sequence[Sequence[str]]) -> None:
        """Answer a question of this Location, whichever process asked it. Raises InvalidAnswers, and the question goes
        on waiting, if the answers do not fit."""
        await self.detached(self._reply(session_id, request_id, tuple(tuple(answer) for answer in answers)))

    async def reject(self, session_id: str, request_id: str) -> None:
        """Dismiss a question, which ends the turn that asked it."""
        await self.detached(self._reject(session_id, request_id))

    def live_request(self, request: QuestionRequest) -> QuestionAskedLive:
        return QuestionAskedLive(**{name: getattr(request, name) for name in QuestionRequest.__struct_fields__})

    def live_answer(self, request: QuestionRequest, answer: QuestionAnswer) -> Record:
        if answer.answers is None:
            return QuestionRejectedLive(
                session_id=request.session_id, request_id=request.id, ancestors=request.ancestors
            )
        return QuestionRepliedLive(
            session_id=request.session_id,
            request_id=request.id,
            answers=answer.answers,
            ancestors=request.ancestors,
        )

    def interrupted(self, request: QuestionRequest) -> QuestionRejected:
        return self._rejected(request, "interrupted")

    def call_of(self, request: QuestionRequest) -> tuple[str, str] | None:
        return (request.tool.message_id, request.tool.call_id) if request.tool else None

    def same(self, one: QuestionRequest, other: QuestionRequest) -> bool:
        return one.questions == other.questions

    async def _reply(self, session_id: str, request_id: str, answers: tuple[Answer, ...]) -> None:
        request = await self._find(session_id, request_id)
        _check(request, answers)
        replied = QuestionReplied(
            timestamp=self._clock.now(), session_id=session_id, request_id=request_id, answers=answers
        )
        if not await self.answer(request, replied):
            raise QuestionNotFound(request_id)

    async def _reject(self, session_id: str, request_id: str) -> None:
        request = await self._find(session_id, request_id)
        if not await self.answer(request, self._rejected(request)):
            raise QuestionNotFound(request_id)

    def _rejected(self, request: QuestionRequest, cause: Literal["interrupted"] | None = None) -> QuestionRejected:
        return QuestionRejected(
            timestamp=self._clock.now(), session_id=request.session_id, request_id=request.id, cause=cause
        )

    async def _find(self, session_id: str, request_id: str) -> QuestionRequest:
        found = await self.find(session_id, request_id)
        if found is None:
            raise QuestionNotFound(request_id)
        return found.request


def _check(request: QuestionRequest, answers: tuple[Answer, ...]) -> None:
    if len(answers) > len(request.questions):
        raise InvalidAnswers(request.id, f"{len(answers)} answers to {len(request.questions)} questions")
    for number, (question, answer) in enumerate(zip(request.questions, answers, strict=False), start=1):
        offered = {option.label for option in question.options}
        if len(answer) > 1 and not question.multiple:
            raise InvalidAnswers(request.id, f"question {number} takes one answer")
        if question.custom is False and not offered.issuperset(answer):
            raise InvalidAnswers(request.id, f"question {number} takes only what it offers")
        if any(len(text) > ANSWER_CHARACTERS for text in answer):
            raise InvalidAnswers(request.id, f"an answer has at most {ANSWER_CHARACTERS} characters")
