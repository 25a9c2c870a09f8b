"""One call, run here."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.llm import event as ev
from holdfast.llm.dispatch import ToolFailure, TypedTool, dispatch
from holdfast.llm.request import ToolOutput, ToolResult
from holdfast.schema.session_message import TextContent

pytestmark = pytest.mark.anyio


class Place(msgspec.Struct):
    city: str
    days: int = 1


async def weather(place: Place) -> Any:
    match place.city:
        case "Atlantis":
            raise ToolFailure("no such city", {"near": "Gibraltar"})
        case "Nowhere":
            raise RuntimeError("a defect")
        case "Paris":
            return ToolOutput(structured={"sky": "grey"}, content=(TextContent(text="It is grey."),))
        case _:
            return place


TOOLS = [TypedTool("weather", "The weather of a place.", Place, weather)]


def call(given: dict[str, Any], name: str = "weather", **more: Any) -> ev.ToolCall:
    return ev.ToolCall("c1", name, given, **more)


def test_the_definition_of_a_tool_comes_from_its_input_type() -> None:
    """LLM-174: the definition is what its input type says."""
    assert msgspec.to_builtins(TOOLS[0].definition) == {
        "name": "weather",
        "description": "The weather of a place.",
        "inputSchema": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
            "required": ["city"],
        },
    }


@pytest.mark.parametrize(
    ("city", "result", "output"),
    [
        (
            "Rome",
            ToolResult(type="json", value={"city": "Rome", "days": 1}),
            ToolOutput(structured={"city": "Rome", "days": 1}),
        ),
        (
            "Paris",
            ToolResult(type="text", value="It is grey."),
            ToolOutput(structured={"sky": "grey"}, content=(TextContent(text="It is grey."),)),
        ),
    ],
)
async def test_success_is_one_result_with_its_output(city: str, result: ToolResult, output: ToolOutput) -> None:
    """LLM-174"""
    assert await dispatch(call({"city": city}), TOOLS) == (
        ev.ToolResultEvent("c1", "weather", result, provider_executed=False, output=output),
    )


@pytest.mark.parametrize(
    ("given", "message", "error"),
    [
        (call({"city": "Atlantis"}), "no such city", {"near": "Gibraltar"}),
        (call({}, name="wether"), "Unknown tool: wether", None),
        (call({"city": 7}), "Invalid tool input: Expected `str`, got `int` - at `$.city`", None),
        (
            call({}, invalid="the arguments are not JSON", raw="{"),
            "Invalid tool input: the arguments are not JSON",
            None,
        ),
    ],
)
async def test_a_failure_is_an_error_and_a_result_that_says_so(given: ev.ToolCall, message: str, error: Any) -> None:
    """LLM-174: of an unknown tool, of input that does not fit, of one that the tool declares."""
    assert await dispatch(given, TOOLS) == (
        ev.ToolErrorEvent("c1", given.name, message, error),
        ev.ToolResultEvent("c1", given.name, ToolResult(type="error", value=message), provider_executed=False),
    )


async def test_a_defect_in_a_tool_is_raised() -> None:
    """LLM-174"""
    with pytest.raises(RuntimeError, match="a defect"):
        await dispatch(call({"city": "Nowhere"}), TOOLS)


async def test_a_hosted_call_is_not_ours() -> None:
    """LLM-067"""
    with pytest.raises(ValueError, match="the provider executes weather itself"):
        await dispatch(call({"city": "Rome"}, provider_executed=True), TOOLS)


def test_dispatch_events_survive_a_round_trip_through_json() -> None:
    """LLM-007, LLM-060"""
    events: list[ev.Event] = [
        ev.ToolErrorEvent("c1", "weather", "no such city", {"near": "Gibraltar"}),
        ev.ToolResultEvent(
            "c1",
            "weather",
            ToolResult(type="json", value={"a": 1}),
            provider_executed=False,
            output=ToolOutput(structured={"a": 1}, content=(TextContent(text="x"),)),
        ),
    ]
    encoded = msgspec.json.encode(events)
    assert msgspec.json.decode(encoded, type=list[ev.Event]) == events
    assert [item["type"] for item in msgspec.json.decode(encoded)] == ["tool-error", "tool-result"]
