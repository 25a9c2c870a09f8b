"""Questions from the model to the user, and their answers."""

from typing import Annotated

import msgspec

from holdfast.schema.ids import SessionIDField
from holdfast.schema.record import Record

QuestionIDField = Annotated[str, msgspec.Meta(pattern="^que")]
Answer = tuple[str, ...]


class QuestionOption(Record):
    label: Annotated[str, msgspec.Meta(description="What the person sees, one to five words")]
    description: Annotated[str, msgspec.Meta(description="What choosing it means")]


class Question(Record):
    question: Annotated[str, msgspec.Meta(description="The complete question")]
    header: Annotated[str, msgspec.Meta(description="A very short label, at most 30 characters")]
    options: Annotated[tuple[QuestionOption, ...], msgspec.Meta(description="What can be chosen")]
    multiple: bool | None = None
    custom: bool | None = None
    """Whether free text is allowed; true by default."""


class QuestionTool(Record):
    message_id: str
    call_id: str


class QuestionRequest(Record):
    id: QuestionIDField
    session_id: SessionIDField
    questions: tuple[Question, ...]
    tool: QuestionTool | None = None
    ancestors: tuple[SessionIDField, ...] | None = None
    """The Sessions above the one that asks, root first; without a parent there are none."""
