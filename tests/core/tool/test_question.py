"""The `question` tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from tests.core.tool.authorizers import AllowAll

from holdfast.core.permission.rules import ORDINARY, Terms
from holdfast.core.question.errors import Dismissed, Unanswerable
from holdfast.core.scope import Scope
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.core.tool.builtin.question import ANSWERS, QuestionInput, question_tool
from holdfast.core.tool.registry import ToolRegistry
from holdfast.core.tool.tool import ToolContext, ToolFailure
from holdfast.schema.question import Answer, Question, QuestionTool

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext("ses_1", "build", "msg_1", "c1")
OPTIONS = [{"label": "A", "description": "first"}, {"label": "B", "description": "second"}]


def encoded(value: object) -> Any:
    """What the registry hands to the projections."""
    return msgspec.json.decode(msgspec.json.encode(value))


class Person:
    """Answers as told; None dismisses."""

    def __init__(self, answers: tuple[Answer, ...] | None) -> None:
        self._answers = answers
        self.asked: list[tuple[str, tuple[Question, ...], QuestionTool]] = []

    async def ask(self, session_id: str, questions: Sequence[Question], tool: QuestionTool) -> tuple[Answer, ...]:
        self.asked.append((session_id, tuple(questions), tool))
        if self._answers is None:
            raise Dismissed("que_1")
        return self._answers


class Denying:
    asked: tuple[Any, ...] = ()

    async def allow(
        self,
        context: ToolContext,
        action: str,
        resources: Sequence[str],
        *,
        save: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        terms: Terms = ORDINARY,
    ) -> None:
        self.asked = (action, tuple(resources), tuple(save))
        raise Denied("Permission denied: question")


def given(*questions: str, **more: Any) -> QuestionInput:
    return msgspec.convert(
        {"questions": [{"question": text, "header": "h", "options": OPTIONS, **more} for text in questions]},
        QuestionInput,
    )


async def test_the_request_names_the_call() -> None:
    """TOL-252: message and call, and the questions as they are."""
    person = Person((("A",),))
    value = await question_tool(person, AllowAll()).execute(given("Which?", multiple=True), CONTEXT)
    session_id, (question,), call = person.asked[0]
    assert (session_id, call) == ("ses_1", QuestionTool(message_id="msg_1", call_id="c1"))
    assert (question.question, question.multiple, question.custom) == ("Which?", True, None)
    assert encoded(value) == {"answers": [["A"]]}


@pytest.mark.parametrize(
    ("answers", "pairs"),
    [
        ((("A",), ("A", "B")), '"One?"="A", "Two?"="A, B"'),
        ((("A",), ()), '"One?"="A", "Two?"="Unanswered"'),
        ((("A",),), '"One?"="A", "Two?"="Unanswered"'),
        ((), '"One?"="Unanswered", "Two?"="Unanswered"'),
        (((), ('say "hi"',)), '"One?"="Unanswered", "Two?"="say \\"hi\\""'),
    ],
)
async def test_the_model_reads_each_question_with_its_chosen_labels(answers: tuple[Answer, ...], pairs: str) -> None:
    """TOL-252, TOL-254: each question in order with its labels; quotes escaped."""
    tool = question_tool(Person(answers), AllowAll())
    asked = given("One?", "Two?")
    value = encoded(await tool.execute(asked, CONTEXT))
    assert tool.content is not None
    (shown,) = tool.content(asked, value)
    text = msgspec.to_builtins(shown)["text"]
    assert text == ANSWERS.format(answers=pairs)
    assert text.startswith("User answers: ")


async def test_a_dismissed_question_is_no_result() -> None:
    """TOL-253: what the service raises passes through."""
    with pytest.raises(Dismissed):
        await question_tool(Person(None), AllowAll()).execute(given("Which?"), CONTEXT)


async def test_a_denied_question_is_not_asked() -> None:
    """TOL-251: approval for everything, nothing to save."""
    person, denying = Person(()), Denying()
    with pytest.raises(Denied, match="Permission denied: question"):
        await question_tool(person, denying).execute(given("Which?"), CONTEXT)
    assert denying.asked == ("question", ("*",), ())
    assert person.asked == []


def test_the_schema_does_not_offer_custom() -> None:
    """TOL-251: free text is always possible, and no choice of the model's."""
    (_,), components = msgspec.json.schema_components([QuestionInput])
    assert set(components["GivenQuestion"]["properties"]) == {"question", "header", "options", "multiple"}


@pytest.mark.parametrize(
    ("questions", "options"), [(0, 2), (9, 2), (1, 13)], ids=["no question", "nine questions", "thirteen options"]
)
def test_the_number_of_questions_and_options_is_bounded(questions: int, options: int) -> None:
    """TOL-254: an input error, before anyone is asked."""
    one = {"question": "?", "header": "h", "options": OPTIONS[:1] * options}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"questions": [one] * questions}, QuestionInput)


async def test_a_question_through_the_registry_returns_text_and_structured_answers() -> None:
    """TOL-252, TOL-254: the sentence and the structured answers; bad input asks nobody."""
    person, registry = Person((("A",),)), ToolRegistry()
    registry.register({"question": question_tool(person, AllowAll())}, Scope())
    catalog = registry.materialize(())
    with pytest.raises(ToolFailure, match="Invalid tool input"):
        await catalog.execute("question", {"questions": []}, CONTEXT)
    assert person.asked == []
    arguments = {"questions": [{"question": "Which?", "header": "h", "options": OPTIONS}]}
    output = await catalog.execute("question", arguments, CONTEXT)
    assert encoded(output.structured) == {"answers": [["A"]]}
    assert encoded(output.content)[0]["text"] == ANSWERS.format(answers='"Which?"="A"')


async def test_an_unattended_question_fails_the_call_and_the_model_goes_on() -> None:
    """TOL-254: that is a failure of the call, unlike a dismissal."""

    class Nobody:
        async def ask(self, session_id: str, questions: Sequence[Question], tool: QuestionTool) -> tuple[Answer, ...]:
            raise Unanswerable("nobody is here")

    with pytest.raises(ToolFailure, match="nobody is here"):
        await question_tool(Nobody(), AllowAll()).execute(given("Which?"), CONTEXT)
