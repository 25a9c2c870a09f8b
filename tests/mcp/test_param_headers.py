"""Headers that repeat parts of a request."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.mcp.param_headers import InvalidAnnotation, ParamHeader, header_value, param_headers, routing_headers


def test_a_request_repeats_its_method_name_and_marked_arguments() -> None:
    """MCP-005, MCP-068"""
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "flag": {"type": "boolean", "x-mcp-header": "Flag"},
            "absent": {"type": "string", "x-mcp-header": "Absent"},
        },
    }
    annotated = param_headers(schema)
    assert ParamHeader(("deep", "n"), "mcp-param-n") in annotated
    arguments = {"region": "Köln", "deep": {"n": 7}, "flag": True, "absent": None}
    headers = routing_headers("2026-07-28", "tools/call", {"name": "t", "arguments": arguments}, annotated)
    assert headers == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "t",
        "mcp-param-region": "=?base64?S8O2bG4=?=",
        "mcp-param-n": "7",
        "mcp-param-flag": "true",
    }
    assert "mcp-name" not in routing_headers("2026-07-28", "tools/list", {})
    assert routing_headers("2026-07-28", "resources/read", {"uri": "a://1"})["mcp-name"] == "a://1"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain text", "plain text"),
        (" edge", "=?base64?IGVkZ2U=?="),
        ("a\r\nb: c", "=?base64?YQ0KYjogYw==?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ("", ""),
    ],
)
def test_a_value_that_a_header_cannot_hold_is_encoded(text: str, value: str) -> None:
    """MCP-005"""
    assert header_value(text) == value


@pytest.mark.parametrize(
    "schema",
    [
        {"x-mcp-header": "A"},
        {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": ["string", "null"], "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "a b"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": ""}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": 7}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "X"}, "b": {"type": "string", "x-mcp-header": "x"}}},
        {"properties": {"a": {"items": {"type": "string", "x-mcp-header": "A"}}}},
        {"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]},
        {"$defs": {"a": {"type": "string", "x-mcp-header": "A"}}},
        {"properties": {str(number): {} for number in range(20_000)}},
    ],
)
def test_invalid_marks_are_found(schema: Any) -> None:
    """MCP-068"""
    with pytest.raises(InvalidAnnotation):
        param_headers(schema)


@pytest.mark.parametrize("schema", [None, 7, [], {}, {"properties": []}, {"default": {"x-mcp-header": 7}}])
def test_a_schema_without_marks_has_none(schema: Any) -> None:
    """MCP-068"""
    assert param_headers(schema) == ()
