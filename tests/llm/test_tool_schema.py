"""What each dialect makes of a tool's schema."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.llm.errors import LLMError
from holdfast.llm.model import Model
from holdfast.llm.protocols.base import WireProtocol
from holdfast.llm.protocols.gemini import Gemini
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.request import ToolDefinition, make_request
from holdfast.llm.route.route import Route
from holdfast.llm.stream import prepare
from holdfast.llm.tool_schema import (
    closed,
    gemini_sanitise,
    gemini_schema,
    inline_refs,
    moonshot_schema,
    object_schema,
    openai_schema,
    schema_of,
)
from holdfast.schema.codec import decode_any, encode

STRING = {"type": "string"}
NULL = {"type": "null"}


def thing(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def sent(protocol: WireProtocol, compatibility: Any, schema: dict[str, Any]) -> Any:
    """The tool as it stands in a body."""
    tool = ToolDefinition(name="f", description="d", input_schema=schema)
    model = Model("m", "p", Route("r", protocol, "https://example.org"), compatibility=compatibility)
    (lowered,) = decode_any(prepare(model, make_request(prompt="hi", tools=[tool])).body)["tools"]
    return lowered


# -- order ---------------------------------------------------------------------------------------------------------


def test_the_models_dialect_comes_before_the_protocols() -> None:
    """LLM-166"""
    schema = {"properties": {"n": {"type": "integer", "enum": [1, 2]}, "t": {"type": "array", "items": [STRING]}}}
    assert sent(OpenAIChat(), "gemini", schema)["function"]["parameters"] == {
        "type": "object",
        "properties": {"n": {"type": "string", "enum": ["1", "2"]}, "t": {"type": "array", "items": STRING}},
    }
    assert sent(OpenAIChat(), "moonshot", schema)["function"]["parameters"] == {
        "type": "object",
        "properties": {"n": {"type": "integer", "enum": [1, 2]}, "t": {"type": "array", "items": STRING}},
    }
    pair = thing(t={"type": "array", "prefixItems": [STRING, {"type": "integer"}]})
    assert sent(Gemini(), "moonshot", pair)["functionDeclarations"][0]["parameters"] == thing(
        t={"type": "array", "items": {"anyOf": [STRING, {"type": "integer"}]}}
    )


# -- OpenAI --------------------------------------------------------------------------------------------------------


def test_openai_takes_one_object_at_the_top() -> None:
    """LLM-167"""
    assert openai_schema({"properties": {"a": STRING}}) == thing(a=STRING)
    assert openai_schema({"type": ["object", "null"], "properties": {"a": STRING}}) == thing(a=STRING)


def test_openai_wants_properties_even_when_there_are_none() -> None:
    """Its answer to `{"type":"object"}` is `object schema missing properties`."""
    assert openai_schema({"type": "object"}) == thing()


def test_openai_never_sees_strict_on_chat() -> None:
    """LLM-167"""
    assert sent(OpenAIChat(), None, thing(a=STRING)) == {
        "type": "function",
        "function": {"name": "f", "description": "d", "parameters": thing(a=STRING)},
    }


def test_openai_alternatives_at_the_top_are_merged() -> None:
    """LLM-167, LLM-171: the first of two properties wins, the parent's before them; `required` names what is left."""
    schema = {
        "description": "kept",
        "properties": {"own": STRING, "b": {"const": "parent"}},
        "required": ["own", "a", "gone"],
        "anyOf": [
            thing(a={"const": "first"}, b={"const": "first"}),
            {"properties": {"a": {"const": "second"}, "c": STRING}},
            NULL,
        ],
    }
    assert openai_schema(schema) == {
        "type": "object",
        "description": "kept",
        "properties": {"own": STRING, "b": {"const": "parent"}, "a": {"const": "first"}, "c": STRING},
        "required": ["own", "a"],
        "additionalProperties": False,
    }


def test_every_combination_at_the_top_is_merged() -> None:
    """LLM-167, LLM-300: a provider refuses the whole request for any of them, whichever tool it would call."""
    choices = {"oneOf": [thing(a=STRING), {**thing(b=STRING), "required": ["b"]}], "not": {}, "enum": []}
    assert object_schema(choices) == {**thing(a=STRING, b=STRING), "additionalProperties": False}
    both = {
        "allOf": [{**thing(a=STRING), "required": ["a"]}, {"$ref": "#/$defs/more"}],
        "$defs": {"more": {**thing(b=STRING), "required": ["b", "gone"]}},
        "required": ["a"],
    }
    merged = object_schema(both)
    assert merged.pop("$defs") == both["$defs"]
    assert merged == {**thing(a=STRING, b=STRING), "required": ["a", "b"]}
    either = {**thing(a=STRING, b=STRING), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert object_schema(either) == thing(a=STRING, b=STRING)


def test_without_a_combination_the_top_stays_as_it_is() -> None:
    """LLM-167, LLM-219: in the order of its keys too."""
    schema = {"$schema": "x", "required": ["a", "else"], "type": "object", "properties": {"b": STRING, "a": STRING}}
    assert list(object_schema(schema).items()) == list(schema.items())


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": None, "required": None},
        {"properties": None, "anyOf": [{"type": "object"}]},
        {"required": None, "anyOf": [thing(a=STRING)]},
        {"anyOf": [{"properties": 5}, {"type": "object", "properties": None}]},
        {"required": [["a"], {"a": 1}], **thing(a=STRING), "anyOf": [{"type": "object"}]},
        thing(x={"anyOf": [{"type": "object", "properties": None}, NULL]}),
        thing(x={"type": [{"x": 1}], "enum": [1]}),
        thing(x={"type": {"a": 1}, "enum": 5, "items": 5}),
        thing(x=True, y={"$ref": 5}),
    ],
)
def test_a_malformed_schema_spoils_no_request(schema: dict[str, Any]) -> None:
    """LLM-167, LLM-168: they come from servers that somebody else wrote."""
    for project in (openai_schema, object_schema, gemini_schema, moonshot_schema, closed, inline_refs):
        encode(project(schema))
    top = object_schema(schema)
    assert isinstance(top.get("properties", {}), dict)
    assert all(isinstance(name, str) for name in top.get("required", []))


def test_a_schema_without_a_bottom_is_refused_here() -> None:
    """LLM-006"""
    schema: dict[str, Any] = STRING
    for _ in range(900):
        schema = thing(a=schema)
    for protocol in (OpenAIChat(), Gemini()):
        with pytest.raises(LLMError, match="nested too deeply") as caught:
            sent(protocol, None, schema)
        assert caught.value.reason == "InvalidRequest"


def test_openai_alternatives_may_be_references() -> None:
    """LLM-167: as msgspec writes a union."""
    schema = {
        "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
        "$defs": {"A": thing(a=STRING), "B": thing(b=STRING)},
    }
    assert openai_schema(schema)["properties"] == {"a": STRING, "b": STRING}
    assert "anyOf" not in openai_schema(schema)


def test_openai_null_alternatives_go_everywhere() -> None:
    """LLM-167: a single object that is left takes its parent's place; anything else stays an alternative."""
    schema = thing(
        one={"description": "outer", "anyOf": [{**thing(a=STRING), "description": "inner"}, NULL]},
        two={"anyOf": [STRING, NULL]},
        three={"anyOf": [STRING, thing(deep={"anyOf": [STRING, {"type": "integer"}, NULL]}), NULL]},
        both={"properties": {"own": STRING}, "anyOf": [thing(a=STRING, own=NULL), NULL]},
        none={"anyOf": [NULL], "description": "nothing left"},
    )
    assert openai_schema(schema) == thing(
        one={"type": "object", "properties": {"a": STRING}, "description": "outer"},
        two={"anyOf": [STRING]},
        three={"anyOf": [STRING, thing(deep={"anyOf": [STRING, {"type": "integer"}]})]},
        both=thing(a=STRING, own=STRING),
        none={"description": "nothing left"},
    )


def test_openai_values_are_not_schemas() -> None:
    """LLM-167: what only looks like one stays as it is."""
    value = {"anyOf": [NULL, STRING]}
    schema = thing(a={"default": value, "enum": [value], "const": value, "examples": [value]})
    assert openai_schema(schema) == schema


def test_openai_a_reference_at_the_top_is_opened() -> None:
    """LLM-167: as msgspec writes a struct."""
    schema = {"$ref": "#/$defs/X", "$defs": {"X": {**thing(a={"$ref": "#/$defs/Y"})}, "Y": STRING}}
    assert openai_schema(schema) == {**thing(a={"$ref": "#/$defs/Y"}), "$defs": schema["$defs"]}


# -- Gemini --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": "integer", "enum": [1, 2]}, {"type": "string", "enum": ["1", "2"]}),
        ({"type": "number", "enum": [1.5, "x"]}, {"type": "string", "enum": ["1.5", "x"]}),
        ({"type": ["integer", "null"], "enum": [1]}, {"type": ["string", "null"], "enum": ["1"]}),
        ({"enum": [True, None]}, {"enum": ["true", "null"]}),
        ({**thing(a=STRING), "required": ["a", "b"]}, {**thing(a=STRING), "required": ["a"]}),
        ({"type": "array"}, {"type": "array", "items": STRING}),
        ({"type": ["array", "null"]}, {"type": ["array", "null"], "items": STRING}),
        (
            {"type": "array", "items": {"description": "x"}},
            {"type": "array", "items": {"description": "x", "type": "string"}},
        ),
        ({"type": "array", "items": {"enum": ["a"]}}, {"type": "array", "items": {"enum": ["a"]}}),
        ({"type": "array", "items": {"type": "array"}}, {"type": "array", "items": {"type": "array", "items": STRING}}),
        (
            {"type": "array", "items": [STRING, {"type": "integer"}]},
            {"type": "array", "items": {"anyOf": [STRING, {"type": "integer"}]}},
        ),
        ({"type": "array", "items": False, "prefixItems": [STRING]}, {"type": "array", "items": STRING}),
        ({"type": "string", "properties": {"a": STRING}, "required": ["a"]}, STRING),
        ({"properties": {"a": STRING}}, {"properties": {"a": STRING}}),
        (
            {"type": ["object", "null"], "properties": {"a": STRING}},
            {"type": ["object", "null"], "properties": {"a": STRING}},
        ),
        ({"type": "array", "anyOf": [STRING]}, {"type": "array", "anyOf": [STRING]}),
        (
            {"type": "string", "properties": {"a": STRING}, "oneOf": [STRING]},
            {"type": "string", "properties": {"a": STRING}, "oneOf": [STRING]},
        ),
    ],
)
def test_gemini_schemas_are_sanitised_at_every_depth(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    """LLM-168: at the top and inside of everything that holds schemas."""
    assert gemini_sanitise(given) == wanted
    assert gemini_sanitise(thing(p=given)) == thing(p=wanted)
    assert gemini_sanitise({"anyOf": [given]}) == {"anyOf": [wanted]}
    assert gemini_sanitise({"$defs": {"d": given}}) == {"$defs": {"d": wanted}}


def test_gemini_properties_may_have_the_names_of_keywords() -> None:
    """LLM-168, LLM-169"""
    names = ("type", "items", "enum", "required", "properties", "definitions", "$defs", "$ref", "anyOf", "const")
    schema = thing(**{name: {"type": "integer"} for name in names})
    assert gemini_schema(schema) == schema


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            {
                "title": "T",
                "$schema": "x",
                "default": "d",
                "pattern": "p",
                "maxLength": 3,
                "type": "string",
                "description": "D",
                "format": "date",
                "minLength": 1,
                "nullable": True,
            },
            {"type": "string", "description": "D", "format": "date", "minLength": 1, "nullable": True},
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"type": "integer", "const": 3}, {"type": "string", "enum": ["3"]}),
        ({"type": "boolean", "const": True}, {"type": "boolean"}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["null", "integer", "string"]}, {"type": "integer", "nullable": True}),
        ({"type": ["integer", "string"]}, {"type": "integer"}),
        ({"anyOf": [STRING, NULL]}, {"type": "string", "nullable": True}),
        (
            {"description": "x", "anyOf": [thing(a=STRING), NULL]},
            {**thing(a=STRING), "description": "x", "nullable": True},
        ),
        (
            {"anyOf": [STRING, {"type": "integer"}, NULL]},
            {"anyOf": [STRING, {"type": "integer"}], "nullable": True},
        ),
        ({"oneOf": [STRING, {"const": "a"}]}, {"oneOf": [STRING, {"type": "string", "enum": ["a"]}]}),
        ({"allOf": [thing(a=STRING)]}, {"allOf": [thing(a=STRING)]}),
        ({**thing(a=STRING), "additionalProperties": False}, thing(a=STRING)),
        ({"type": "object", "additionalProperties": True}, {"type": "object"}),
        ({"type": "object", "additionalProperties": {}}, {"type": "object"}),
        ({"type": "object", "additionalProperties": STRING, "required": ["a"]}, {"type": "object"}),
        ({"type": "array", "items": {"type": "object"}}, {"type": "array", "items": {"type": "object"}}),
        ({"$ref": "https://example.org/other", "description": "x"}, {"description": "x"}),
        ({"type": "object", "anyOf": [thing(a=STRING)]}, {"type": "object", "anyOf": [thing(a=STRING)]}),
    ],
)
def test_gemini_schemas_keep_only_what_the_provider_knows(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    """LLM-169: only what the provider knows, in its own form."""
    assert gemini_schema(given) == wanted
    assert gemini_schema(thing(p=given)) == thing(p=wanted)


@pytest.mark.parametrize(
    "empty",
    [
        {"type": "object"},
        {"type": "object", "properties": {}, "required": []},
        {"type": "object", "properties": {}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"]},
        {"anyOf": [{"type": "object"}, NULL]},
    ],
)
def test_gemini_an_object_without_properties_disappears(empty: dict[str, Any]) -> None:
    """LLM-169, LLM-171: and so does its name in `required`."""
    assert gemini_schema(empty) is None
    assert gemini_schema({**thing(a=STRING, e=empty), "required": ["a", "e"]}) == {**thing(a=STRING), "required": ["a"]}
    assert gemini_schema({**thing(a=STRING, e=empty), "required": ["e"]}) == thing(a=STRING)


def test_gemini_references_are_inlined() -> None:
    """LLM-171: with what stands beside them, also below `definitions` and by any local pointer."""
    schema = {
        "$ref": "#/$defs/Root",
        "$defs": {"Root": thing(a={"$ref": "#/$defs/A~1B", "description": "mine"}), "A/B": STRING},
    }
    assert gemini_schema(schema) == thing(a={"type": "string", "description": "mine"})
    assert gemini_schema({**thing(a={"$ref": "#/definitions/x%20y"}), "definitions": {"x y": STRING}}) == thing(
        a=STRING
    )
    assert gemini_schema(thing(a=STRING, b={"$ref": "#/properties/a"})) == thing(a=STRING, b=STRING)
    assert gemini_schema(thing(a={"oneOf": [STRING]}, b={"$ref": "#/properties/a/oneOf/0"})) == thing(
        a={"oneOf": [STRING]}, b=STRING
    )


def test_gemini_recursion_is_cut() -> None:
    """LLM-171: at an open object, so that something is left of it."""
    tree = {
        "$ref": "#/$defs/Node",
        "$defs": {"Node": thing(name=STRING, children={"type": "array", "items": {"$ref": "#/$defs/Node"}})},
    }
    assert gemini_schema(tree) == thing(name=STRING, children={"type": "array", "items": {"type": "object"}})
    assert gemini_schema(thing(name=STRING, self={"$ref": "#"})) == thing(
        name=STRING, self=thing(name=STRING, self={"type": "object"})
    )
    assert gemini_schema({"$ref": "#"}) == {"type": "object"}


def test_references_that_multiply_are_bounded() -> None:
    """LLM-171: each level names the next twice; in full that would be a million nodes."""
    levels = {f"L{n}": thing(a={"$ref": f"#/$defs/L{n + 1}"}, b={"$ref": f"#/$defs/L{n + 1}"}) for n in range(20)}
    schema = {"$ref": "#/$defs/L0", "$defs": {**levels, "L20": STRING}}
    assert len(msgspec.json.encode(gemini_schema(schema))) < 1_000_000


# -- Moonshot ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"$ref": "#/$defs/x", "description": "gone"}, {"$ref": "#/$defs/x"}),
        ({"type": "array", "items": [STRING, NULL]}, {"type": "array", "items": {"anyOf": [STRING, NULL]}}),
        ({"type": "array", "items": [STRING]}, {"type": "array", "items": STRING}),
        ({"type": "array", "items": []}, {"type": "array", "items": {}}),
        ({"type": "array", "prefixItems": [STRING, NULL]}, {"type": "array", "items": {"anyOf": [STRING, NULL]}}),
        ({"type": "array", "prefixItems": [STRING], "items": NULL}, {"type": "array", "items": NULL}),
        ({"type": "array", "prefixItems": [STRING], "items": False}, {"type": "array", "items": STRING}),
        ({"type": "array", "items": STRING, "unevaluatedItems": False}, {"type": "array", "items": STRING}),
        ({"type": "array", "items": STRING}, {"type": "array", "items": STRING}),
    ],
)
def test_moonshot_schemas_have_the_form_it_accepts(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    """LLM-170"""
    outer = {**thing(p=given), "$defs": {"x": STRING}}
    assert moonshot_schema(outer) == {**thing(p=wanted), "$defs": {"x": STRING}}
    assert moonshot_schema(thing(p={"anyOf": [given]})) == thing(p={"anyOf": [wanted]})


def test_moonshot_a_reference_at_the_top_keeps_its_definitions() -> None:
    """LLM-170: cut down to `$ref`, it would name nothing."""
    schema = {"$ref": "#/$defs/X", "$defs": {"X": thing(unevaluatedItems=STRING, prefixItems=STRING)}}
    assert moonshot_schema(schema) == {**schema["$defs"]["X"], "$defs": schema["$defs"]}  # type: ignore[index]


class Leaf(msgspec.Struct):
    text: str


class Branch(msgspec.Struct):
    leaves: list[Leaf]
    branches: list[Branch]


def test_the_schema_of_a_type() -> None:
    """LLM-028: one object with what it needs, and no more: definitions cost tokens in every turn."""
    assert schema_of(Leaf) == {**thing(text=STRING), "required": ["text"]}
    branch = schema_of(Branch)
    assert branch["properties"]["leaves"] == {"type": "array", "items": {"$ref": "#/$defs/Leaf"}}
    assert sorted(branch["$defs"]) == ["Branch", "Leaf"]
    assert schema_of(list[int]) == {"type": "array", "items": {"type": "integer"}}


def test_closing_names_no_more_than_objects() -> None:
    assert closed(thing(a=thing(), b={"type": "object", "additionalProperties": STRING}, c=STRING)) == {
        "additionalProperties": False,
        **thing(
            a={**thing(), "additionalProperties": False},
            b={"type": "object", "additionalProperties": STRING},
            c=STRING,
        ),
    }


# -- properties ----------------------------------------------------------------------------------------------------

KINDS = ["string", "integer", "number", "boolean", "array", "object", "null"]
NAMES = st.sampled_from(["a", "b", "type", "items", "$ref", "anyOf", "required"])
JSON = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3))


def fields(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    schemas = st.lists(children, max_size=3)
    named = st.dictionaries(NAMES, children, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(st.sampled_from(KINDS), st.lists(st.sampled_from(KINDS), min_size=1, max_size=3)),
            "properties": named,
            "required": st.lists(NAMES, max_size=3),
            "items": st.one_of(children, schemas, st.booleans()),
            "prefixItems": schemas,
            "anyOf": schemas,
            "oneOf": schemas,
            "allOf": schemas,
            "enum": st.lists(JSON, max_size=3),
            "const": JSON,
            "default": JSON,
            "$ref": st.sampled_from(["#", "#/$defs/a", "#/properties/b", "#/nowhere", "other"]),
            "$defs": named,
            "additionalProperties": st.one_of(st.booleans(), children),
            "description": st.text(max_size=3),
        },
    )


SCHEMAS = st.recursive(fields(st.nothing() | st.just({})), fields, max_leaves=8)
ALLOWED = set("description required format type nullable enum properties items allOf anyOf oneOf minLength".split())  # noqa: SIM905


def check_gemini(node: dict[str, Any]) -> None:
    assert set(node) <= ALLOWED
    assert isinstance(node.get("type", ""), str)
    assert all(isinstance(value, str) for value in node.get("enum", ()))
    assert not node.get("enum") or node["type"] not in ("integer", "number", "boolean")
    properties = node.get("properties", {})
    assert set(node.get("required", ())) <= set(properties)
    below = [*properties.values(), *([node["items"]] if "items" in node else [])]
    below += [item for key in ("allOf", "anyOf", "oneOf") for item in node.get(key, ())]
    for item in below:
        check_gemini(item)


@settings(deadline=None, max_examples=60)
@given(SCHEMAS)
@example({"type": "integer", "anyOf": [{"const": 1}, NULL]})
def test_any_schema_has_a_form_in_every_dialect(schema: dict[str, Any]) -> None:
    """LLM-169, LLM-171: only known keys at every depth, no dangling names, nothing given is changed."""
    before = copy.deepcopy(schema)
    projected = gemini_schema(schema)
    if projected is not None:
        check_gemini(projected)
    assert openai_schema(schema)["type"] == "object"
    assert isinstance(moonshot_schema(schema), dict)
    assert "$defs" not in inline_refs(schema)
    assert schema == before
