"""Schemas in the subset of each provider's JSON mode."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.llm.model import Model
from holdfast.llm.native_schema import native_schema, without_null_options
from holdfast.llm.protocols.anthropic_messages import AnthropicMessages
from holdfast.llm.protocols.base import WireProtocol
from holdfast.llm.protocols.bedrock_converse import BedrockConverse
from holdfast.llm.protocols.gemini import Gemini
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.protocols.openai_responses import OpenAIResponses
from holdfast.llm.route.route import Route
from holdfast.llm.tool_schema import schema_of

OPENAI = (OpenAIChat(), OpenAIResponses())
CLAUDE = (AnthropicMessages(), BedrockConverse())
EVERY = (*OPENAI, *CLAUDE, Gemini())


def native(protocol: WireProtocol, schema: dict[str, Any]) -> dict[str, Any] | None:
    return native_schema(Model("m", "p", Route("r", protocol, "https://example.org")), schema)


class Line(msgspec.Struct):
    text: str
    amount: float = 0.0


class Invoice(msgspec.Struct):
    number: int
    lines: list[Line]
    note: str | None = None
    kind: str = "invoice"


def test_openai_requires_every_property() -> None:
    """LLM-429: an optional one may be null instead."""
    for protocol in OPENAI:
        found = native(protocol, schema_of(Invoice))
        assert found is not None
        assert found["required"] == ["number", "lines", "note", "kind"]
        assert found["additionalProperties"] is False
        assert found["properties"]["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
        assert found["properties"]["kind"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
        line = found["$defs"]["Line"]
        assert (line["required"], line["additionalProperties"]) == (["text", "amount"], False)


def test_claude_has_optional_properties() -> None:
    """LLM-429"""
    for protocol in CLAUDE:
        found = native(protocol, schema_of(Invoice))
        assert found is not None
        assert found["required"] == ["number", "lines"]
        assert found["properties"]["kind"] == {"type": "string"}
        assert found["additionalProperties"] is False
        assert found["$defs"]["Line"]["additionalProperties"] is False


def test_a_constraint_that_is_not_known_is_told_in_words() -> None:
    """LLM-429"""
    schema = {
        "type": "object",
        "properties": {
            "age": {"type": "integer", "minimum": 0, "description": "In years."},
            "name": {"type": "string", "minLength": 2, "format": "email"},
        },
        "required": ["age", "name"],
    }
    claude = native(AnthropicMessages(), schema)
    assert claude is not None
    assert claude["properties"] == {
        "age": {"type": "integer", "description": "In years. (minimum: 0)"},
        "name": {"type": "string", "format": "email", "description": "(minLength: 2)"},
    }
    openai = native(OpenAIChat(), schema)
    assert openai is not None
    assert openai["properties"]["age"] == {"type": "integer", "minimum": 0, "description": "In years."}


FREE: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"]}
MAP: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer"}}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["children"],
        }
    },
    "required": ["children"],
}


def one(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        (FREE, {Gemini().id}),
        (MAP, {Gemini().id}),
        (TREE, {protocol.id for protocol in OPENAI}),
        (one({"allOf": [{"type": "string"}]}), set()),
        (one({"not": {"type": "string"}}), set()),
        (one({"if": {"type": "string"}}), set()),
        (one({"type": "array", "prefixItems": [{"type": "string"}]}), set()),
        (one({"patternProperties": {"^a": {"type": "string"}}}), set()),
        (one({"type": "array"}), set()),
        (one({}), set()),
        ({**one({"type": "string"}), "required": ["a", "b"]}, set()),
        (one({"enum": [{"a": 1}]}), set()),
        ({"type": "array", "items": {"type": "string"}}, set()),
        ({"anyOf": [one({"type": "string"})]}, set()),
        (one({"oneOf": [{"type": "string"}, {"const": 1}]}), {protocol.id for protocol in EVERY}),
    ],
)
def test_what_cannot_be_expressed_has_no_native_form(schema: dict[str, Any], fits: set[str]) -> None:
    """LLM-429"""
    assert {protocol.id for protocol in EVERY if native(protocol, schema) is not None} == fits


def test_the_type_of_constants_is_named() -> None:
    """LLM-429"""
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}, "one": {"const": 1}, "mixed": {"enum": ["x", None, 2.5]}},
        "required": ["kind", "one", "mixed"],
    }
    for protocol in EVERY:
        found = native(protocol, schema)
        assert found is not None
        assert found["properties"] == {
            "kind": {"enum": ["a", "b"], "type": "string"},
            "one": {"enum": [1], "type": "integer"},
            "mixed": {"enum": ["x", None, 2.5], "type": ["string", "null", "number"]},
        }


def test_claude_limits_optional_properties_and_unions() -> None:
    """LLM-429"""
    optional = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(25)}}
    union = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    unions = {
        "type": "object",
        "properties": {f"p{n}": union for n in range(17)},
        "required": [f"p{n}" for n in range(17)],
    }
    inside = {**one({"$ref": "#/$defs/wide"}), "$defs": {"wide": optional}}
    for schema in (optional, unions, inside):
        assert native(AnthropicMessages(), schema) is None
        assert native(OpenAIChat(), schema) is not None


def test_a_null_that_says_nothing_is_left_out() -> None:
    """LLM-433: at every depth, and only where null is no value."""
    schema = schema_of(Invoice)
    given = {"number": 1, "lines": [{"text": "a", "amount": None}], "note": None, "kind": None}
    assert without_null_options(schema, given) == {"number": 1, "lines": [{"text": "a"}], "note": None}
    maybe = {
        "type": "object",
        "properties": {"line": {"anyOf": [{"$ref": "#/$defs/Line"}, {"type": "null"}]}},
        "$defs": schema["$defs"],
    }
    assert without_null_options(maybe, {"line": {"text": "a", "amount": None}}) == {"line": {"text": "a"}}
    assert without_null_options(maybe, {"line": None, "other": None}) == {"line": None, "other": None}
    required = one({"type": "string"})
    assert without_null_options(required, {"a": None}) == {"a": None}
