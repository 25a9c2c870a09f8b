"""The pieces of an answer that is being written.

Every piece has `text`, which is what it adds to the text of the answer: `print(piece.text, end="")` prints the answer.
Distinguish them by class: `match piece: case ToolStarted(tool=name): ...`."""

from __future__ import annotations

from typing import Any

from holdfast.embedded.answer import Answer
from holdfast.schema.form import Form
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import QuestionRequest
from holdfast.schema.record import Record


class BasePiece(Record):
    text: str = ""


class TextPiece(BasePiece):
    """A part of the text of a message."""

    text: str
    message_id: str
    part_id: str
    replaces: bool = False
    """Whether this is the whole text of the part, because live events of another process were missed and what was
    yielded of the part before is not its beginning."""


class ReasoningPiece(BasePiece):
    """A part of the model's reasoning."""

    reasoning: str
    message_id: str
    part_id: str
    replaces: bool = False
    """As of TextPiece."""


class ToolStarted(BasePiece):
    """The model called a tool; the call is recorded."""

    message_id: str
    call_id: str
    tool: str
    input: dict[str, Any]


class ToolProgressed(BasePiece):
    """What a running tool shows so far."""

    message_id: str
    call_id: str
    tool: str
    output: str


class ToolFinished(BasePiece):
    """The call is settled: with an output, or with an error that the model reads."""

    message_id: str
    call_id: str
    tool: str
    output: str
    """What the model reads, as far as it is text."""
    structured: dict[str, Any]
    """What the tool returned."""
    error: str | None = None


class PermissionPiece(BasePiece):
    """A tool call waits for a permission. `hf.permissions.reply` answers it; so does `hf.on_permission`."""

    request: PermissionRequest


class QuestionPiece(BasePiece):
    """The model asks a question. `hf.questions.reply` answers it; so does `hf.on_question`."""

    request: QuestionRequest


class FormPiece(BasePiece):
    """A tool call waits for a form. `hf.forms.reply` answers it; so does `hf.on_form`."""

    request: Form


class RetryPiece(BasePiece):
    """The provider failed, and the request is sent again."""

    attempt: int
    error: str


class Done(BasePiece):
    """The answer is complete. It is the last piece."""

    answer: Answer


Piece = (
    TextPiece
    | ReasoningPiece
    | ToolStarted
    | ToolProgressed
    | ToolFinished
    | PermissionPiece
    | QuestionPiece
    | FormPiece
    | RetryPiece
    | Done
)
