"""How a request asks for a format, and how the answer is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.llm.answer_format import (
    TOOL,
    AnswerFormat,
    AskedFormat,
    Problem,
    Value,
    refused_way,
    thinks,
    without_thinking,
)
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.protocols.anthropic_messages import AnthropicMessages
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.request import ToolChoice, ToolDefinition
from holdfast.llm.route.route import Route

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
PARIS = {"name": "Paris", "people": 2}
READ = ToolDefinition(name="read", description="", input_schema={"type": "object"})
CHAT = Model("m", "p", Route("r", OpenAIChat(), "https://example.org"))
CLAUDE = Model("m", "p", Route("r", AnthropicMessages(), "https://example.org"))
ABLE = Capabilities(native_json=True, native_json_with_tools=True)
ALONE = Capabilities(native_json=True)


def test_the_json_mode_is_used_where_the_model_has_one() -> None:
    """LLM-427, LLM-428"""
    asked = AnswerFormat(CITY).ask(CHAT.replace(capabilities=ABLE), [READ])
    assert asked == AskedFormat(response_format={"type": "json", "name": TOOL, "schema": CITY, "strict": True})


@pytest.mark.parametrize(
    ("model", "tools", "refused"),
    [
        (CHAT, [], ()),
        (CHAT.replace(capabilities=ALONE), [READ], ()),
        (CHAT.replace(capabilities=ABLE), [READ], ("native",)),
    ],
)
def test_otherwise_a_tool_is_offered(model: Model, tools: list[ToolDefinition], refused: Any) -> None:
    """LLM-427, LLM-428, LLM-430, LLM-431"""
    asked = AnswerFormat(CITY).ask(model, tools, refused=refused)
    assert asked.response_format is None
    assert asked.tool is not None
    assert (asked.tool.name, asked.tool.input_schema) == (TOOL, CITY)
    assert asked.tool_choice == (ToolChoice(type="required") if tools else ToolChoice(type="tool", name=TOOL))
    assert asked.sentence is not None
    assert TOOL in asked.sentence


def test_a_schema_that_the_json_mode_cannot_express_is_asked_for_by_the_tool() -> None:
    """LLM-427, LLM-429"""
    free = {"type": "object", "properties": {"any": {"type": "object"}}}
    assert AnswerFormat(free).ask(CHAT.replace(capabilities=ABLE), [READ]).tool is not None


def test_the_tool_has_a_name_of_its_own() -> None:
    """LLM-430"""
    taken = [ToolDefinition(name=name, description="", input_schema={}) for name in (TOOL, f"{TOOL}_2")]
    asked = AnswerFormat(CITY).ask(CHAT, taken)
    assert asked.tool is not None
    assert asked.tool.name == f"{TOOL}_3"


def test_claude_is_not_forced_while_it_thinks() -> None:
    """LLM-377, LLM-430: when it is asked again, it is forced and does not think."""
    options: dict[str, dict[str, Any]] = {"anthropic": {"thinking": {"type": "enabled"}, "effort": "high"}}
    assert thinks(CLAUDE, options)
    assert not thinks(CLAUDE, {"anthropic": {"thinking": {"type": "disabled"}}})
    assert not thinks(CLAUDE, None)
    assert not thinks(CHAT, options)
    first = AnswerFormat(CITY).ask(CLAUDE, [READ], thinks=True)
    assert (first.tool_choice, first.without_thinking) == (ToolChoice(type="auto"), False)
    again = AnswerFormat(CITY).ask(CLAUDE, [READ], thinks=True, again=True)
    assert (again.tool_choice, again.without_thinking) == (ToolChoice(type="required"), True)
    assert without_thinking(CLAUDE, options) == {"anthropic": {"thinking": None, "effort": "high"}}


def test_a_nullable_property_stays_nullable_in_the_tool() -> None:
    """LLM-429"""
    schema = {"type": "object", "properties": {"note": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
    asked = AnswerFormat(schema).ask(CHAT, [])
    assert asked.tool is not None
    assert asked.tool.input_schema["properties"] == {"note": {"type": ["string", "null"]}}


@pytest.mark.parametrize(
    ("message", "way"),
    [
        ("'response_format' of type json_schema is not supported with this model", "native"),
        ("Function calling with a response mime type: 'application/json' is unsupported", "native"),
        ("Invalid schema for response_format: ...", "native"),
        ("the model is not available in your country", None),
    ],
)
def test_the_words_of_a_refusal_tell_what_it_is_about(message: str, way: str | None) -> None:
    """LLM-431"""
    native = AskedFormat(response_format={})
    assert refused_way(native, "InvalidRequest", message) == way
    assert refused_way(native, "RateLimit", message) is None
    forced = AskedFormat(tool=READ, tool_choice=ToolChoice(type="required"))
    assert refused_way(forced, "InvalidRequest", "Thinking may not be enabled when tool_choice forces tool use") == (
        "forced"
    )
    free = AskedFormat(tool=READ, tool_choice=ToolChoice(type="auto"))
    assert refused_way(free, "InvalidRequest", "tool_choice is bad") is None


@pytest.mark.parametrize(
    "text",
    [
        '{"name":"Paris","people":2}',
        '  \n{"name": "Paris", "people": 2}\n',
        'Here it is:\n```json\n{"name":"Paris","people":2}\n```\nDone.',
        '```\n{"name":"Paris","people":2}\n```',
        'The city is {"name":"Paris","people":2}, I think.',
        'First [1] then {"a": {}} and {"name":"Paris","people":2}',
        'It was {broken and then {"name":"Paris","people":2}',
    ],
)
def test_the_value_may_have_text_around_it(text: str) -> None:
    """LLM-435"""
    assert AnswerFormat(CITY).read_text(text) == Value(PARIS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("No idea.", "it is not JSON"),
        ('{"name":"Paris"', "it is not JSON"),
        ('{"name":"Paris"}', "$: 'people' is missing"),
        ('{"name":1,"people":-2,"x":1}', "$.name: expected string, got number; $.people: is less than 0"),
        ("[" * 5000, "it is not JSON"),
        ("{" * 5000 + '{"name":', "it is not JSON"),
        ('{"name":"\\ud800","people":1}', ""),
        ("NaN", "it is not JSON"),
    ],
)
def test_a_text_without_the_value_says_why(text: str, why: str) -> None:
    """LLM-433, LLM-435"""
    found = AnswerFormat(CITY).read_text(text)
    assert isinstance(found, Problem)
    assert why in found.text


def test_every_problem_is_named_up_to_a_bound() -> None:
    """LLM-433"""
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    found = AnswerFormat(schema).read_input({f"p{n}" * 400: "x" for n in range(20)})
    assert isinstance(found, Problem)
    assert found.text.count("expected integer") >= 1
    assert len(found.text) <= 2000


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ({"type": "string"}, "x"),
        ({"type": ["integer", "null"]}, None),
        ({"anyOf": [CITY, {"type": "null"}]}, PARIS),
        ({}, {"anything": [1]}),
    ],
)
def test_a_root_that_is_no_object_is_wrapped(schema: dict[str, Any], value: Any) -> None:
    """LLM-432: and unwrapped again; a model that does not wrap is understood too."""
    format = AnswerFormat(schema)
    assert format.offered["properties"] == {"value": schema}
    assert format.read_input({"value": value}) == Value(value)
    if isinstance(value, dict):
        assert format.read_input(value) == Value(value)


def test_a_root_that_is_a_reference_is_opened() -> None:
    """LLM-432"""
    format = AnswerFormat({"$ref": "#/$defs/City", "$schema": "x", "$defs": {"City": CITY}})
    assert not format.wrapped
    assert format.offered == {**CITY, "$defs": {"City": CITY}}


def test_a_value_that_is_nested_too_deeply_is_no_answer() -> None:
    """LLM-434: whatever the schema says; it would be stored, and not every reader could decode it."""
    assert AnswerFormat({}).read_text("[" * 128 + "]" * 128) == Value(json.loads("[" * 128 + "]" * 128))
    assert AnswerFormat({}).read_text("[" * 129 + "]" * 129) == Problem("it is nested more than 128 levels deep")


def test_a_hostile_pattern_ends() -> None:
    """LLM-434"""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}}
    found = AnswerFormat(schema).read_input({"a": "a" * 50_000})
    assert isinstance(found, Problem)
