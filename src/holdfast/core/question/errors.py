"""How a question ends other than in answers.

Dismissed           a person does not answer: the turn ends without a tool result
Unanswerable        nobody was asked; the model reads why and goes on
QuestionNotFound    no such question waits for an answer here
InvalidAnswers      the answers do not fit the questions, which go on waiting
"""

from __future__ import annotations

from holdfast.core.permission.errors import TurnEnded
from holdfast.schema.exceptions import HoldfastError, InvalidRequest
from holdfast.schema.exceptions import QuestionNotFound as QuestionNotFound

NOBODY_TO_ASK = "Nobody is here to answer questions; go on with what you know, and say what you assumed"
TOO_MANY_WAIT = "Too many questions of this Session already wait for an answer"


class Dismissed(TurnEnded):
    """A person dismissed the question, or nobody can answer any more."""

    code = "QuestionV2.RejectedError"

    def __init__(self, request_id: str) -> None:
        super().__init__("The person dismissed this question")
        self.request_id = request_id


class Unanswerable(HoldfastError):
    """Nobody was asked. The text is the tool's failure, which the model reads."""


class InvalidAnswers(InvalidRequest):
    """The answers do not fit the questions."""

    code = "QuestionV2.InvalidAnswersError"

    def __init__(self, request_id: str, reason: str) -> None:
        super().__init__(f"These answers do not fit: {reason}", kind="Payload", field="answers")
        self.request_id = request_id
        self.reason = reason
