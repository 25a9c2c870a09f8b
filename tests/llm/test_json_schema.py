"""The validator of answers against a raw JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.llm.json_schema import TOO_LONG, violation, violations

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["name"],
    "additionalProperties": False,
}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "additionalProperties": False,
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "good", "bad", "complaint"),
    [
        ({"type": "string"}, "a", 1, "$: expected string, got number"),
        ({"type": "integer"}, 1.0, 1.5, "$: expected integer, got number"),
        ({"type": "integer"}, 1, True, "$: expected integer, got boolean"),
        ({"type": "number"}, 1.5, "1", "$: expected number, got string"),
        ({"type": "boolean"}, True, 1, "$: expected boolean, got number"),
        ({"type": "null"}, None, False, "$: expected null, got boolean"),
        ({"type": ["string", "null"]}, None, [], "$: expected string or null, got array"),
        ({"enum": [1, "a", {"b": [1]}]}, {"b": [1.0]}, True, "$: is none of the allowed values"),
        ({"const": {"a": 1}}, {"a": 1}, {"a": True}, "$: is not the only allowed value"),
        ({"minimum": 1}, 1, 0, "$: is less than 1"),
        ({"maximum": 1}, 1, 2, "$: is more than 1"),
        ({"exclusiveMinimum": 1}, 2, 1, "$: is not more than 1"),
        ({"exclusiveMaximum": 1}, 0, 1, "$: is not less than 1"),
        ({"minLength": 2}, "éé", "é", "$: is shorter than 2 characters"),
        ({"maxLength": 2}, "éé", "ééé", "$: is longer than 2 characters"),
        ({"pattern": "^a"}, "ab", "ba", "$: does not match ^a"),
        ({"minItems": 1}, [1], [], "$: has 0 items, fewer than 1"),
        ({"maxItems": 1}, [1], [1, 2], "$: has 2 items, more than 1"),
        (CITY, {"name": "x", "tags": ["a"]}, {}, "$: 'name' is missing"),
        (CITY, {"name": "x"}, {"name": ""}, "$.name: is shorter than 1 characters"),
        (CITY, {"name": "x", "tags": []}, {"name": "x", "tags": ["a", 2]}, "$.tags[1]: expected string, got number"),
        (CITY, {"name": "x"}, {"name": "x", "more": 1}, "$: 'more' is not allowed"),
        ({"additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": "1"}, "$.a: expected integer, got string"),
        (
            {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
            {"xa": 1},
            {"ya": 1},
            "$: 'ya' is not allowed",
        ),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1], "$[1]: nothing is allowed here"),
        ({"items": [{"type": "string"}], "additionalItems": {"type": "integer"}}, ["a", 1], ["a", "b"], "$[1]: exp"),
        (
            {"anyOf": [{"type": "string"}, {"minimum": 3}]},
            4,
            2,
            "$: fits none of 2 alternatives ($: expected string, got number)",
        ),
        ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, 2, 4, "$: fits 2 alternatives where only one is allowed"),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, 4, 2, "$: is less than 3"),
        ({"not": {"type": "string"}}, 1, "a", "$: is what it must not be"),
        ({"type": "integer"}, 10**400, 0.5, "$: expected integer, got number"),
        ({"multipleOf": 5}, 10, 11, "$: is not a multiple of 5"),
        ({"multipleOf": 0.1}, 0.3, 0.35, "$: is not a multiple of 0.1"),
        ({"uniqueItems": True}, [1, "1", True, [1]], [{"a": 1}, {"a": 1.0}], "$: has the same item twice"),
        ({"contains": {"type": "string"}}, [1, "a"], [1], "$: 0 items are of the kind of which there must be at least"),
        ({"contains": {"type": "string"}, "minContains": 0}, [1], 0, ""),
        ({"contains": {}, "maxContains": 1}, [1], [1, 2], "$: 2 items are of the kind of which there may be at most 1"),
        ({"minProperties": 1}, {"a": 1}, {}, "$: has 0 properties, fewer than 1"),
        ({"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}, "$: has 2 properties, more than 1"),
        ({"propertyNames": {"pattern": "^a"}}, {"ab": 1}, {"b": 1}, "$: the name 'b': does not match ^a"),
        ({"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}, "$: 'b' is missing, which 'a' needs"),
        ({"dependentSchemas": {"a": {"required": ["c"]}}}, {"b": 1}, {"a": 1}, "$: 'c' is missing"),
        (
            {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 3}},
            "ab",
            2,
            "$: is less than 3",
        ),
        (TREE, {"children": [{"children": []}]}, {"children": [{"kids": 1}]}, "$.children[0]: 'kids' is not allowed"),
    ],
)
def test_each_json_schema_keyword_is_validated(schema: dict[str, Any], good: Any, bad: Any, complaint: str) -> None:
    """LLM-377"""
    assert violation(schema, good) is None
    assert (violation(schema, bad) or "").startswith(complaint)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/nowhere"},
        {"pattern": "(?<never>closed"},
        {"type": "string", "minimum": 5, "properties": 3, "required": "a", "items": 7, "anyOf": {}, "minLength": "x"},
    ],
)
def test_a_malformed_or_recursive_schema_forbids_nothing(schema: Any) -> None:
    """LLM-377: a schema that names itself ends, one that is malformed does not crash."""
    assert violation(schema, "text") is None


def test_several_violations_are_named() -> None:
    """LLM-433"""
    assert violations(CITY, {"name": 1, "tags": [1, 2], "x": 0}) == [
        "$.name: expected string, got number",
        "$.tags[0]: expected string, got number",
        "$.tags[1]: expected string, got number",
        "$: 'x' is not allowed",
    ]
    assert len(violations({"items": {"type": "string"}}, [1] * 100)) == 5


def test_a_value_that_takes_too_long_to_validate_is_not_valid() -> None:
    """LLM-434: alternatives in alternatives multiply. For tools it counts as valid."""
    schema: Any = {"type": "integer"}
    for _ in range(20):
        schema = {"anyOf": [schema, schema, {"type": "null"}]}
    assert violations(schema, "x") == [TOO_LONG]
    assert violation(schema, "x") is None
    names = {"enum": [f"name {number}" for number in range(3_000)]}
    assert violations({"items": names}, ["name 2999"] * 5_000) == [TOO_LONG]
    patterns = {"items": {"pattern": "^(a|b|ab)*$"}}
    assert violations(patterns, ["ab" * 200] * 1_000) == [TOO_LONG]


def test_no_violation_is_made_up_when_validation_is_cut_off() -> None:
    """LLM-434: patterns that were not tried do not count as matches."""
    schema = {"patternProperties": {f"^a{number}": {"type": "string"} for number in range(500)}}
    value = {f"b{number}": 1 for number in range(2_000)}
    assert violations(schema, value) == [TOO_LONG]
    assert violation(schema, value) is None
    assert violations(schema, {"a1": 1, **value})[0] == "$.a1: expected string, got number"


def test_a_value_that_is_nested_too_deeply_is_not_valid() -> None:
    """LLM-434"""
    value: Any = []
    for _ in range(3_000):
        value = [value]
    assert violations({"items": {"$ref": "#"}}, value) == ["$: is nested too deeply"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_every_value_fits_itself_and_any_schema_has_an_answer(schema: Any, value: Any) -> None:
    """LLM-377"""
    assert violation({"const": value}, value) is None
    assert violation({"enum": [schema, value]}, value) is None
    violation(schema, value)


def test_a_schema_with_multiplying_alternatives_is_validated_in_bounded_time() -> None:
    """They come from servers that somebody else wrote, and the loop waits for this."""
    schema = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}
    assert violation(schema, {}) is None


def test_a_value_without_a_bottom_is_a_violation() -> None:
    schema = {"additionalProperties": {"$ref": "#"}}
    value: dict[str, object] = {}
    for _ in range(900):
        value = {"a": value}
    assert violation(schema, value) == "$: is nested too deeply"
