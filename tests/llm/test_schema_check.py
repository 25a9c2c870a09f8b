"""Which JSON Schemas a prompt may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.llm.schema_check import SchemaProblem, check_schema, is_recursive

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
}
NODE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
        }
    },
}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": ["string", "null"], "minLength": 1, "pattern": "^a"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/a", "title": "A"},
        {"properties": {"$ref": {"type": "string"}, "type": {"type": "integer"}, "anything": True}},
        {"type": "array", "prefixItems": [{}], "items": False},
        {"items": [{"type": "string"}], "additionalItems": False},
        {"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"minimum": 0}},
        {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"a": {"required": ["c"]}}},
        {"enum": [{"$ref": "https://example.org"}], "default": {"type": 5}},
        TREE,
        NODE,
        nested(100),
    ],
)
def test_a_schema_that_can_be_used(schema: dict[str, Any]) -> None:
    """API-493: also a recursive one; values come to an end."""
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "place", "why"),
    [
        ({"type": "text"}, "$.type", "one or several of string"),
        ({"type": []}, "$.type", "one or several"),
        ({"type": [["string"]]}, "$.type", "one or several"),
        ({"properties": []}, "$.properties", "object of schemas"),
        ({"properties": {"a": 5}}, "$.properties.a", "a schema is"),
        ({"properties": {"a": {"items": "x"}}}, "$.properties.a.items", "a schema is"),
        ({"anyOf": {}}, "$.anyOf", "list of schemas"),
        ({"anyOf": []}, "$.anyOf", "list of schemas"),
        ({"allOf": [{}, {"type": 1}]}, "$.allOf[1].type", "one or several"),
        ({"enum": []}, "$.enum", "at least one"),
        ({"required": "name"}, "$.required", "list of names"),
        ({"dependentRequired": {"a": 1}}, "$.dependentRequired", "lists of names"),
        ({"minLength": -1}, "$.minLength", "at least 0"),
        ({"maxItems": "3"}, "$.maxItems", "at least 0"),
        ({"minimum": True}, "$.minimum", "a number"),
        ({"multipleOf": 0}, "$.multipleOf", "above 0"),
        ({"pattern": "("}, "$.pattern", "not closed"),
        ({"pattern": 5}, "$.pattern", "a string"),
        ({"patternProperties": {"(?=a)": {}}}, "$.patternProperties", "look-around"),
        ({"patternProperties": None}, "$.patternProperties", "object of schemas"),
        ({"patternProperties": 5}, "$.patternProperties", "object of schemas"),
        ({"$ref": "https://example.org/schema.json"}, "$.$ref", "nothing is fetched"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "$.properties.a.$ref", "nothing is fetched"),
        ({"$ref": "#/$defs/missing"}, "$.$ref", "leads nowhere"),
        ({"$ref": "#anchor"}, "$.$ref", "leads nowhere"),
        ({"$ref": 5}, "$.$ref", "a string"),
        ({"$ref": "#/x", "x": {"dependentSchemas": [1]}}, "#/x.dependentSchemas", "object of schemas"),
        ({"$ref": "#"}, "$", "refers to itself"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, "$", "refers to itself"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}}, "$.$defs", "refers to itself"),
        ({"unevaluatedProperties": False}, "$.unevaluatedProperties", "not supported"),
        ({"$dynamicRef": "#a"}, "$.$dynamicRef", "not supported"),
        (nested(200), "$", "128 levels"),
        ({"description": "x" * 70_000}, "$", "65536"),
    ],
)
def test_a_problem_is_named_with_its_place(schema: dict[str, Any], place: str, why: str) -> None:
    """API-493"""
    with pytest.raises(SchemaProblem) as refused:
        check_schema(schema)
    assert refused.value.place.startswith(place)
    assert why in str(refused.value)


def test_recursion_is_recognised() -> None:
    """LLM-429"""
    assert is_recursive(TREE)
    assert is_recursive(NODE)
    two = {
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"properties": {"b": {"$ref": "#/$defs/b"}}}, "b": {"items": {"$ref": "#/$defs/a"}}},
    }
    assert is_recursive(two)
    assert not is_recursive({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}})
