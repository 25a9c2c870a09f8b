"""Questions of MCP servers as forms."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.form.forms import FormReply
from holdfast.core.mcp.elicitation import ElicitationRefused, as_answer, as_draft
from holdfast.mcp.input import Elicitation, ElicitationAnswer
from holdfast.schema.form import (
    BooleanField,
    ExternalField,
    FormOption,
    IntegerField,
    MultiselectField,
    NumberField,
    StringField,
)


def asking(*required: str, **properties: Any) -> Elicitation:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return Elicitation(message="Tell me", requested_schema=schema | ({"required": [*required]} if required else {}))


def test_each_kind_of_property_is_a_field() -> None:
    """MCP-250, MCP-251"""
    request = asking(
        "name",
        name={
            "type": "string",
            "title": "Name",
            "description": "Yours",
            "minLength": 1,
            "maxLength": 9,
            "default": "x",
        },
        mail={"type": "string", "format": "email", "examples": ["a@b.example"]},
        weight={"type": "number", "minimum": 0.5, "maximum": 2},
        count={"type": "integer", "default": 3.0},
        agree={"type": "boolean", "default": False},
        size={"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
        colour={"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        many={"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "default": ["a"]},
        titled={"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "maxItems": 1},
        maybe={"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "title": "Maybe"},
    )
    draft = as_draft("shop", request)
    assert (draft.title, draft.metadata) == (
        "shop is requesting input",
        {"kind": "mcp-elicitation", "server": "shop", "message": "Tell me"},
    )
    letters = (FormOption(value="a", label="a"), FormOption(value="b", label="b"))
    assert draft.fields == (
        StringField(
            key="name", title="Name", description="Yours", required=True, min_length=1, max_length=9, default="x"
        ),
        StringField(key="mail", format="email"),
        NumberField(key="weight", minimum=0.5, maximum=2),
        IntegerField(key="count", default=3),
        BooleanField(key="agree", default=False),
        StringField(
            key="size",
            options=(FormOption(value="s", label="Small"), FormOption(value="l", label="Large")),
            custom=False,
        ),
        StringField(
            key="colour",
            options=(FormOption(value="r", label="Red"), FormOption(value="g", label="Green")),
            custom=False,
        ),
        MultiselectField(key="many", options=letters, min_items=1, custom=False, default=("a",)),
        MultiselectField(key="titled", options=(FormOption(value="a", label="A"),), max_items=1, custom=False),
        IntegerField(key="maybe", title="Maybe"),
    )


def test_schemas_under_a_name_are_looked_up_once() -> None:
    """MCP-251: as programs write them that make schemas of types."""
    schema = {
        "$defs": {"C": {"type": "string", "enum": ["a"], "title": "C"}, "D": {"$ref": "#/$defs/D"}},
        "properties": {
            "one": {"$ref": "#/$defs/C", "default": "a"},
            "many": {"type": "array", "items": {"$ref": "#/$defs/C"}},
            "only": {"type": "string", "const": "x"},
        },
    }
    only_a = (FormOption(value="a", label="a"),)
    assert as_draft("shop", Elicitation(message="x", requested_schema=schema)).fields == (
        StringField(key="one", title="C", options=only_a, custom=False, default="a"),
        MultiselectField(key="many", options=only_a, custom=False),
        StringField(key="only", options=(FormOption(value="x", label="x"),), custom=False),
    )
    schema["properties"] = {"round": {"$ref": "#/$defs/D"}}
    with pytest.raises(ElicitationRefused, match="round"):
        as_draft("shop", Elicitation(message="x", requested_schema=schema))


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("text", "not an object"),
        ({}, "its type is none of"),
        ({"type": "object", "properties": {}}, "its type is none of"),
        ({"type": ["string"]}, "its type is none of"),
        ({"type": "string", "format": "uuid"}, "its format"),
        ({"type": "string", "pattern": "(?=x)"}, "its pattern"),
        ({"type": "string", "pattern": 7}, "its pattern"),
        ({"type": "string", "title": 7}, "its title"),
        ({"type": "string", "title": "x" * 5_000}, "4000 characters"),
        ({"type": "string", "minLength": -1}, "its minLength"),
        ({"type": "string", "enum": [1]}, "its enum"),
        ({"type": "string", "enum": []}, "0 options"),
        ({"type": "string", "enum": ["a", "a"]}, "same value"),
        ({"type": "string", "enum": ["a"], "enumNames": []}, "its enumNames"),
        ({"type": "string", "enum": ["a"], "default": "b"}, "its default"),
        ({"type": "string", "oneOf": [{"const": 1}]}, "a choice"),
        ({"type": "string", "oneOf": "x"}, "its choices"),
        ({"type": "string", "$ref": "#/x"}, "$ref"),
        ({"type": "number", "multipleOf": 2}, "multipleOf"),
        ({"type": "number", "const": 2}, "its const"),
        ({"type": "number", "minimum": "1"}, "its minimum"),
        ({"type": "integer", "default": float("inf")}, "its default"),
        ({"type": "integer", "minimum": 10**400}, "its minimum"),
        ({"type": "string", "maxLength": 10**400}, "its maxLength"),
        ({"type": "number", "minimum": 2, "maximum": 1}, "minimum"),
        ({"type": "integer", "default": 1.5}, "its default"),
        ({"type": "boolean", "default": "yes"}, "its default"),
        ({"type": "array", "items": {"type": "string"}}, "its items"),
        ({"type": "array"}, "its items"),
        ({"type": "array", "items": {"enum": ["a"]}, "default": "a"}, "its default"),
        ({"type": "string", "enum": [str(number) for number in range(501)]}, "501 options"),
    ],
)
def test_what_no_form_can_show_is_refused(field: Any, reason: str) -> None:
    """MCP-252"""
    with pytest.raises(ElicitationRefused) as refused:
        as_draft("shop", asking(good={"type": "string"}, odd=field))
    assert "'odd'" in refused.value.reason
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Elicitation(message="x", requested_schema={"type": "array"}), "not that of an object"),
        (Elicitation(message="x", requested_schema={"properties": []}), "`properties`"),
        (Elicitation(message="x", requested_schema={"properties": 1}), "`properties`"),
        (asking("b", a={"type": "string"}), "`required` names 'b'"),
        (asking(**{f"f{number}": {"type": "string"} for number in range(33)}), "33 fields"),
        (asking(**{"": {"type": "string"}}), "a key has"),
        (Elicitation(message="x" * 4_001, requested_schema={}), "its message"),
        (Elicitation(message="x", mode="url", url="file:///etc/passwd"), "neither http nor https"),
        (Elicitation(message="x", mode="url", url="/api/session"), "neither http nor https"),
        (Elicitation(message="x", mode="url", url="https://a.example/\n"), "not valid"),
        (Elicitation(message="x", mode="url", url="https://bank.example@evil.example/"), "a user name"),
        (Elicitation(message="x", mode="url", url="https://b\u0430nk.example/"), "ASCII"),
        (Elicitation(message="x", mode="url", url="https://a.example", elicitation_id="x" * 300), "elicitationId"),
    ],
)
def test_questions_that_are_refused_as_a_whole(request_: Elicitation, reason: str) -> None:
    """MCP-252, MCP-253, MCP-340"""
    with pytest.raises(ElicitationRefused, match=reason):
        as_draft("shop", request_)


def test_answers_of_a_person_as_answers_to_the_server() -> None:
    """MCP-251, MCP-253, MCP-254"""
    request = asking(many={"type": "array", "items": {"enum": ["a", "b"]}}, n={"type": "integer"})
    accepted = ElicitationAnswer(action="accept", content={"many": ["a"], "n": 3})
    assert as_answer(request, FormReply(answer={"many": ("a",), "n": 3})) == accepted
    assert as_answer(request, FormReply(cancelled="person")) == ElicitationAnswer(action="cancel")
    assert as_answer(request, FormReply(cancelled="person", declined=True)) == ElicitationAnswer(action="decline")
    plain = asking()
    assert as_draft("shop", plain).fields == (BooleanField(key="accept", title="Accept", required=True, default=True),)
    assert as_answer(plain, FormReply(answer={"accept": True})) == ElicitationAnswer(action="accept", content={})
    assert as_answer(plain, FormReply(answer={"accept": False})) == ElicitationAnswer(action="decline")
    visit = Elicitation(message="Pay", mode="url", url="https://pay.example/1", elicitation_id="e1")
    draft = as_draft("shop", visit)
    assert draft.fields == (
        ExternalField(key="elicitation", url="https://pay.example/1", title="Open this page", required=True),
    )
    assert draft.metadata == {"kind": "mcp-elicitation", "server": "shop", "message": "Pay", "elicitationID": "e1"}
    assert as_answer(visit, FormReply(answer={"elicitation": True})) == ElicitationAnswer(action="accept")
