"""Questions and forms as schemas for an editor, and what it answers."""

from __future__ import annotations

from holdfast.acp.form_schema import FormSchema, QuestionSchema
from holdfast.schema.form import (
    BooleanField,
    Form,
    FormCondition,
    FormOption,
    IntegerField,
    MultiselectField,
    NumberField,
    StringField,
)
from holdfast.schema.question import Question, QuestionOption

OPTIONS = (FormOption(value="r", label="Red"), FormOption(value="b", label="Blue", description="As the sea"))
FORM = Form(
    id="frm_1",
    session_id="ses_1",
    title="Paint",
    fields=(
        StringField(key="name", required=True, min_length=1, max_length=9),
        StringField(key="colour", options=OPTIONS, custom=True),
        MultiselectField(key="rooms", options=OPTIONS, min_items=1),
        IntegerField(key="coats", minimum=1, maximum=3, default=2),
        NumberField(key="litres"),
        BooleanField(key="matt", default=True),
        StringField(key="why", required=True, when=(FormCondition(key="matt", op="eq", value=False),)),
    ),
)


def test_a_form_is_a_schema_with_choices_and_limits() -> None:
    """ACP-076"""
    document = FormSchema(FORM).document()
    assert document["required"] == ["name"]
    fields = document["properties"]
    assert fields["name"] == {"type": "string", "minLength": 1, "maxLength": 9}
    assert [one["const"] for one in fields["colour"]["oneOf"]] == ["r", "b"]
    assert fields["colour_other"] == {"type": "string", "title": "Another answer"}
    assert fields["rooms"]["items"]["anyOf"][1] == {"const": "b", "title": "Blue", "description": "As the sea"}
    assert fields["coats"] == {"type": "integer", "minimum": 1, "maximum": 3, "default": 2}
    assert (fields["litres"]["type"], fields["matt"]) == ("number", {"type": "boolean", "default": True})


def test_answers_are_those_of_fields_that_are_part_of_the_form() -> None:
    """ACP-076"""
    content = {"name": "Ada", "colour": "r", "colour_other": "teal", "coats": 2.0, "matt": True, "why": "x", "odd": 1}
    assert FormSchema(FORM).values(content) == {"name": "Ada", "colour": "teal", "coats": 2, "matt": True}
    assert FormSchema(FORM).values({"matt": False, "why": "shiny", "name": ""}) == {"matt": False, "why": "shiny"}


def test_questions_have_a_field_each_and_one_for_another_answer() -> None:
    """ACP-075"""
    options = (QuestionOption(label="red", description="Red"),)
    questions = (
        Question(question="Which colour?", header="Colour", options=options),
        Question(question="Which rooms?", header="Rooms", options=options, multiple=True, custom=False),
        Question(question="Your name?", header="Name", options=()),
    )
    schema = QuestionSchema(questions)
    assert list(schema.document()["properties"]) == ["answer1", "answer1_other", "answer2", "answer3"]
    given = {"answer1": "red", "answer1_other": "teal", "answer2": ["red"], "answer3": "Ada"}
    assert schema.answers(given) == [["teal"], ["red"], ["Ada"]]
    assert schema.answers({"answer1": "red", "answer2": 5}) == [["red"], [], []]
