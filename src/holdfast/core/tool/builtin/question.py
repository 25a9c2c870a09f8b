"""`question`: the model asks the person. A dismissed question is no result: it stops the turn."""

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Annotated, Any, Protocol

import msgspec

from holdfast.core.question.errors import Unanswerable
from holdfast.core.tool.builtin.authorize import Authorizer
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.question import Answer, Question, QuestionOption, QuestionTool
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

ACTION = "question"
MOST_QUESTIONS = 8
MOST_OPTIONS = 12
ANSWERS = "User answers: {answers}. Continue with these in mind."
UNANSWERED = "Unanswered"


class GivenQuestion(msgspec.Struct, frozen=True):
    question: Annotated[str, msgspec.Meta(description="The complete question")]
    header: Annotated[str, msgspec.Meta(description="A very short label, at most 30 characters")]
    options: Annotated[
        tuple[QuestionOption, ...], msgspec.Meta(max_length=MOST_OPTIONS, description="What can be chosen")
    ]
    multiple: Annotated[bool, msgspec.Meta(description="Whether several options may be chosen")] = False


class QuestionInput(msgspec.Struct, frozen=True):
    questions: Annotated[
        tuple[GivenQuestion, ...], msgspec.Meta(min_length=1, max_length=MOST_QUESTIONS, description="What to ask")
    ]


class Answers(Record):
    answers: tuple[Answer, ...]


class Asks(Protocol):
    async def ask(self, session_id: str, questions: Sequence[Question], tool: QuestionTool) -> tuple[Answer, ...]:
        """Wait for the person. What it raises when the question is dismissed passes through this tool."""


def question_tool(questions: Asks, authorizer: Authorizer) -> Tool[QuestionInput, Answers]:
    async def execute(given: QuestionInput, context: ToolContext) -> Answers:
        await authorizer.allow(context, ACTION, ("*",))
        call = QuestionTool(message_id=context.assistant_message_id, call_id=context.tool_call_id)
        asked = tuple(_asked(question) for question in given.questions)
        try:
            return Answers(answers=await questions.ask(context.session_id, asked, call))
        except Unanswerable as error:
            raise ToolFailure(str(error)) from error

    return Tool(
        looks_only=True, description=DESCRIPTION, input=QuestionInput, output=Answers, execute=execute, content=_content
    )


def _asked(given: GivenQuestion) -> Question:
    return Question(
        question=given.question, header=given.header, options=given.options, multiple=given.multiple or None
    )


def _content(given: QuestionInput, value: dict[str, Any]) -> list[TextContent]:
    pairs = (
        f"{_quoted(question.question)}={_quoted(', '.join(labels) or UNANSWERED)}"
        for question, labels in zip(given.questions, chain(value["answers"], repeat(())), strict=False)
    )
    return [TextContent(text=ANSWERS.format(answers=", ".join(pairs)))]


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


DESCRIPTION = (
    "Ask the person up to eight questions and wait for the answers. Use it for preferences, missing requirements and "
    "decisions that are theirs. They may also answer in their own words, so offer no option such as `other`."
)
