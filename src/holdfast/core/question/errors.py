"""How a question can end other than in answers.

Dismissed           a person does not want to answer: the turn stops, and no tool result comes of it
Unanswerable        nobody was asked; the model may read why, and go on
QuestionNotFound    no such question waits for an answer here
InvalidAnswers      answers that do not fit the questions, which go on waiting
"""

from __future__ import annotations

from holdfast.core.permission.stop import Stopped

NOBODY_TO_ASK = "Nobody is here to answer questions; go on with what you know, and say what you assumed"
TOO_MANY_WAIT = "Too many questions of this Session already wait for an answer"


class Dismissed(Stopped):
    """A person dismissed the question, or nobody can answer any more. Never a tool result: the turn stops here."""

    tag = "QuestionV2.RejectedError"

    def __init__(self, request_id: str) -> None:
        super().__init__("The person dismissed this question")
        self.request_id = request_id


class Unanswerable(Exception):
    """The question was not asked, and the tool's failure is `for_model()`."""

    def for_model(self) -> str:
        return str(self)


class QuestionNotFound(Exception):
    """No such question waits here: unknown, answered already, or another Session's."""

    tag = "QuestionV2.NotFoundError"

    def __init__(self, request_id: str) -> None:
        super().__init__(f"Question request not found: {request_id}")
        self.request_id = request_id


class InvalidAnswers(Exception):
    """Answers that do not fit their questions."""

    tag = "QuestionV2.InvalidAnswersError"

    def __init__(self, request_id: str, reason: str) -> None:
        super().__init__(f"These answers do not fit: {reason}")
        self.request_id = request_id
        self.reason = reason
