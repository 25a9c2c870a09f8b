"""Results of every form."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.mcp.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from holdfast.mcp.errors import ProtocolError, TooLarge
from holdfast.mcp.input import Elicitation, InputRequired, RootsRequest, Sampling
from holdfast.mcp.reading import (
    read_completion,
    read_prompt_result,
    read_resource_result,
    read_tool_result,
)
from holdfast.mcp.results import Completion, PromptMessage, PromptResult, ReadResult, ToolResult

VALUES: list[Any] = [None, True, 0, 1.5, "", "text", [], [None], [{}], {}, {"type": "text"}, {"a": {"b": []}}]
FIELDS = [
    "content",
    "structuredContent",
    "isError",
    "resultType",
    "inputRequests",
    "requestState",
    "messages",
    "contents",
]


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


@given(st.sampled_from(VALUES) | st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(VALUES)))
def test_any_result_is_read_or_a_protocol_error(value: Any) -> None:
    """MCP-026"""
    for read in (read_tool_result, read_resource_result, read_prompt_result, read_completion):
        with suppress(ProtocolError):
            read(raw(value))


def test_every_kind_of_content_is_read() -> None:
    """MCP-020"""
    result = read_tool_result(
        raw(
            {
                "content": [
                    {"type": "text", "text": "a", "annotations": {"audience": ["user"]}, "_meta": {"x": 1}},
                    {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
                    {"type": "resource", "resource": {"uri": "a://1", "blob": "aGk=", "mimeType": "x/y"}},
                    {"type": "resource_link", "uri": "a://2", "name": "two", "size": 3},
                ],
                "structuredContent": None,
                "isError": True,
                "_meta": {"y": 2},
                "unknown": 1,
            }
        )
    )
    assert result == ToolResult(
        (
            TextContent(text="a", annotations={"audience": ["user"]}, meta={"x": 1}),
            ImageContent(data="aGk=", mime_type="image/png"),
            AudioContent(data="aGk=", mime_type="audio/wav"),
            EmbeddedResource(resource=ResourceContents(uri="a://1", blob="aGk=", mime_type="x/y")),
            ResourceLink(uri="a://2", name="two", size=3),
        ),
        structured=None,
        is_error=True,
        meta={"y": 2},
    )


def test_a_result_without_structured_content_says_so() -> None:
    """MCP-020"""
    result = read_tool_result(raw({"content": []}))
    assert isinstance(result, ToolResult)
    assert not result.has_structured
    assert not result.is_error


@pytest.mark.parametrize(
    ("part", "kind", "reason"),
    [
        ({"type": "video", "data": ""}, "video", "content of the kind 'video' is not supported"),
        ({"type": "text"}, "text", "Object missing required field `text`"),
        ({"type": "image", "data": 7, "mimeType": "x"}, "image", "Expected `str`, got `int` - at `$.data`"),
        ({"type": "resource", "resource": {"uri": "a://1"}}, "resource", "neither `text` nor `blob` - at `$.resource`"),
        ({"type": 7}, "none", "content of the kind 'none' is not supported"),
        ({}, "none", "content of the kind 'none' is not supported"),
        (None, "none", "content of the kind 'none' is not supported"),
        ({"type": "x\n" * 200}, "x " * 30 + "…", None),
    ],
)
def test_content_that_cannot_be_read_stays_visible(part: Any, kind: str, reason: str | None) -> None:
    """MCP-020"""
    result = read_tool_result(raw({"content": [part, {"type": "text", "text": "good"}]}))
    assert isinstance(result, ToolResult)
    unknown, good = result.content
    assert isinstance(unknown, UnknownContent)
    assert unknown.kind == kind
    assert reason in (None, unknown.reason)
    assert good == TextContent(text="good")


def test_resources_and_prompts_are_read() -> None:
    """MCP-030"""
    contents = {"contents": [{"uri": "a://1", "text": "x"}, {"uri": "a://2", "blob": "aGk="}]}
    assert read_resource_result(raw(contents)) == ReadResult(
        (ResourceContents(uri="a://1", text="x"), ResourceContents(uri="a://2", blob="aGk="))
    )
    message = {"role": "user", "content": {"type": "text", "text": "hi"}}
    assert read_prompt_result(raw({"messages": [message], "description": "d"})) == PromptResult(
        (PromptMessage("user", TextContent(text="hi")),), "d"
    )
    with pytest.raises(ProtocolError):
        read_prompt_result(raw({"messages": [{**message, "role": "system"}]}))


def test_at_most_a_hundred_suggestions_are_read() -> None:
    """MCP-031"""
    completion = read_completion(raw({"completion": {"values": ["x"] * 150, "total": 150, "hasMore": True}}))
    assert completion == Completion(("x",) * 100, 150, True)


def test_a_result_that_asks_for_input_has_all_that_is_needed_to_go_on() -> None:
    """MCP-042"""
    result = {
        "resultType": "input_required",
        "inputRequests": {
            "a": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {"type": "object"}}},
            "b": {"method": "elicitation/create", "params": {"mode": "url", "message": "Go", "url": "https://x.test"}},
            "c": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
            "d": {"method": "roots/list"},
        },
        "requestState": "opaque",
    }
    expected = InputRequired(
        {
            "a": Elicitation(message="Who?", requested_schema={"type": "object"}),
            "b": Elicitation(message="Go", mode="url", url="https://x.test"),
            "c": Sampling(messages=[], max_tokens=1),
            "d": RootsRequest(),
        },
        "opaque",
    )
    for read in (read_tool_result, read_resource_result, read_prompt_result):
        assert read(raw(result)) == expected


@pytest.mark.parametrize(
    "result",
    [
        {"resultType": "input_required"},
        {"resultType": "input_required", "inputRequests": {}},
        {"resultType": "input_required", "inputRequests": {"a": {"method": "tools/call"}}},
        {"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create"}}},
        {"resultType": "input_required", "inputRequests": {str(n): {"method": "roots/list"} for n in range(33)}},
        {
            "resultType": "input_required",
            "inputRequests": {
                "a": {
                    "method": "sampling/createMessage",
                    "params": {"messages": [], "maxTokens": 1, "toolChoice": {}},
                }
            },
        },
        {"resultType": "input_required", "requestState": 7},
        {"resultType": "task", "content": []},
        {"resultType": 7, "content": []},
    ],
)
def test_other_requests_for_input_are_protocol_errors(result: Any) -> None:
    """MCP-042, MCP-026"""
    with pytest.raises(ProtocolError):
        read_tool_result(raw(result))


def test_the_state_that_a_server_wants_back_is_bounded() -> None:
    """MCP-042"""
    with pytest.raises(TooLarge):
        read_tool_result(raw({"resultType": "input_required", "requestState": "x" * (1024 * 1024 + 1)}))
    small = read_tool_result(raw({"resultType": "input_required", "requestState": "x" * 1024 * 1024}))
    assert isinstance(small, InputRequired)
