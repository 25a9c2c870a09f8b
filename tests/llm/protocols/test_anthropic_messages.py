"""Anthropic Messages: what is sent."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.support import (
    PNG,
    WEATHER,
    body,
    claude,
    conversations,
    grown,
    lowered,
    replace_capabilities,
    requests_of,
    unclosed,
)

from holdfast.llm.errors import LLMError
from holdfast.llm.media import NO_IMAGE
from holdfast.llm.request import (
    NO_CACHE,
    Generation,
    MediaPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolDefinition,
    ToolResult,
    ToolResultPart,
    assistant,
    make_request,
    tool_result,
    user,
)
from holdfast.llm.stream import http_request, prepare
from holdfast.schema.codec import decode_any

CLAUDE = claude()
IMAGE = MediaPart(media_type="image/png", data=PNG)
IMAGE_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(id: str, **given: Any) -> ToolCallPart:
    return ToolCallPart(id=id, name="get_weather", input=given)


def thinking(options: Any, **capabilities: Any) -> Any:
    model = replace_capabilities(CLAUDE, **capabilities)
    return body(model, make_request(prompt="x", provider_options={"anthropic": {"thinking": options}})).get("thinking")


# -- the body --------------------------------------------------------------------------------------------------------


def test_a_full_anthropic_request_has_this_body() -> None:
    """LLM-220, LLM-221, LLM-222, LLM-223, LLM-224"""
    request = make_request(
        system=["one", "two"],
        messages=[
            user("a", "b"),
            assistant(
                ReasoningPart(text="hm", provider_metadata={"anthropic": {"signature": "sig"}}),
                TextPart(text="c"),
                call("call_1", city="Zürich"),
            ),
            tool_result("call_1", "get_weather", {"temperature": 22}),
        ],
        tools=[WEATHER],
        tool_choice="get_weather",
        generation=Generation(
            max_tokens=9,
            temperature=0.5,
            top_p=0.9,
            top_k=40,
            frequency_penalty=0.1,
            presence_penalty=0.2,
            seed=7,
            stop=("x", "y"),
        ),
        provider_options={"anthropic": {"effort": "max", "thinking": {"type": "enabled", "budgetTokens": 1024}}},
        cache=NO_CACHE,
    )
    assert body(CLAUDE, request) == {
        "model": "claude-haiku-4-5",
        "stream": True,
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "stop_sequences": ["x", "y"],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "output_config": {"effort": "max"},
        "tools": [
            {
                "name": "get_weather",
                "description": "Get current weather for a city.",
                "input_schema": WEATHER.input_schema,
            }
        ],
        "tool_choice": {"type": "tool", "name": "get_weather"},
        "system": [text("one"), text("two")],
        "messages": [
            {"role": "user", "content": [text("a"), text("b")]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    text("c"),
                    {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Zürich"}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": '{"temperature":22}'}],
            },
        ],
    }
    sent = http_request(prepare(CLAUDE, request))
    assert sent.url == "https://api.anthropic.com/v1/messages"
    assert sent.headers["anthropic-version"] == "2023-06-01"


def test_absent_fields_are_not_sent_to_anthropic() -> None:
    """LLM-221"""
    assert body(CLAUDE, make_request(prompt="x", cache=NO_CACHE)) == {
        "model": "claude-haiku-4-5",
        "stream": True,
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [text("x")]}],
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice(type="auto"), {"type": "auto"}),
        (ToolChoice(type="required"), {"type": "any"}),
        (ToolChoice(type="tool", name="get_weather"), {"type": "tool", "name": "get_weather"}),
    ],
)
def test_tool_choices_have_anthropics_form(choice: ToolChoice, sent: Any) -> None:
    """LLM-222"""
    assert body(CLAUDE, make_request(prompt="x", tools=[WEATHER], tool_choice=choice))["tool_choice"] == sent


def test_no_tools_for_a_choice_of_none_unless_history_has_calls() -> None:
    """LLM-172"""
    sent = body(CLAUDE, make_request(prompt="x", tools=[WEATHER], tool_choice="none"))
    assert not {"tools", "tool_choice"} & set(sent)
    history = [user("a"), assistant(call("c")), tool_result("c", "get_weather", 1)]
    sent = body(CLAUDE, make_request(messages=history, tools=[WEATHER], tool_choice="none"))
    assert sent["tool_choice"] == {"type": "none"}
    assert len(sent["tools"]) == 1


@pytest.mark.parametrize("name", ["get.weather", "x" * 65])
def test_a_tool_name_outside_the_alphabet_fails_here(name: str) -> None:
    """LLM-173"""
    tool = ToolDefinition(name=name, description="", input_schema={})
    with pytest.raises(LLMError) as caught:
        prepare(CLAUDE, make_request(prompt="x", tools=[tool]))
    assert caught.value.reason == "InvalidRequest"


# -- thinking and effort ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["budgetTokens", "budget_tokens"])
def test_a_thinking_budget_has_anthropics_form(name: str) -> None:
    """LLM-226"""
    assert thinking({"type": "enabled", name: 2048}) == {"type": "enabled", "budget_tokens": 2048}


@pytest.mark.parametrize("options", [{"type": "enabled"}, {"type": "enabled", "budgetTokens": "many"}])
def test_thinking_without_a_budget_is_refused(options: Any) -> None:
    """LLM-226"""
    with pytest.raises(LLMError) as caught:
        thinking(options)
    assert (caught.value.reason, caught.value.parameter) == ("InvalidRequest", "thinking")


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"type": "disabled"}, {"type": "disabled"}),
        ({"type": "adaptive"}, {"type": "adaptive"}),
        ({"type": "adaptive", "display": "omitted"}, {"type": "adaptive", "display": "omitted"}),
        ({"type": "other"}, None),
        ("enabled", None),
        (None, None),
    ],
)
def test_the_other_forms_of_thinking(options: Any, sent: Any) -> None:
    """LLM-226"""
    assert thinking(options) == sent


def test_newer_models_think_adaptively_and_take_no_sampling() -> None:
    """LLM-226"""
    assert thinking({"type": "enabled", "budgetTokens": 2048}, thinking="adaptive") == {"type": "adaptive"}
    model = replace_capabilities(CLAUDE, sampling=False)
    generation = Generation(temperature=1.0, top_p=1.0, top_k=1, stop=("x",))
    sent = body(model, make_request(prompt="x", generation=generation))
    assert not {"temperature", "top_p", "top_k"} & set(sent)
    assert sent["stop_sequences"] == ["x"]


@pytest.mark.parametrize("word", ["low", "medium", "high", "xhigh", "max"])
def test_an_effort_is_sent_in_output_config(word: str) -> None:
    """LLM-226"""
    sent = body(CLAUDE, make_request(prompt="x", provider_options={"anthropic": {"effort": word}}))
    assert sent["output_config"] == {"effort": word}


# -- the assistant ---------------------------------------------------------------------------------------------------


def answered(*parts: Any) -> Any:
    messages = lowered(CLAUDE, user("a"), assistant(*parts))
    return messages[1]["content"] if len(messages) > 1 else None


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            ReasoningPart(text="hm", encrypted="sig"),
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
        ),
        (
            ReasoningPart(text="", provider_metadata={"anthropic": {"signature": "sig"}}),
            {"type": "thinking", "thinking": "", "signature": "sig"},
        ),
        (
            ReasoningPart(text="", provider_metadata={"anthropic": {"redactedData": "xyz"}}),
            {"type": "redacted_thinking", "data": "xyz"},
        ),
        (ReasoningPart(text="unsigned"), text("unsigned")),
        (ReasoningPart(text="other", provider_metadata={"openai": {"signature": "s"}}), text("other")),
        (ReasoningPart(text="", provider_metadata={"openai": {"itemId": "s"}}), None),
        (ReasoningPart(text=" \n"), None),
    ],
)
def test_thinking_goes_back_signed_or_not_as_thinking(part: ReasoningPart, block: Any) -> None:
    """LLM-142, LLM-143, LLM-146, LLM-147, LLM-223: an unsigned block is refused by the provider."""
    assert answered(part, TextPart(text="t")) == [*([block] if block else []), text("t")]


FOUND = [{"type": "web_search_result", "url": "https://a.example"}]


def test_hosted_calls_and_results_go_back_as_they_came() -> None:
    """LLM-223, LLM-231, LLM-146"""
    parts = [
        ToolCallPart(id="srv.1", name="web_search", input={"q": 1}, provider_executed=True),
        ToolResultPart(
            id="srv.1", name="web_search", result=ToolResult(type="json", value=FOUND), provider_executed=True
        ),
        ToolResultPart(
            id="srv.2",
            name="tool_search",
            result=ToolResult(type="json", value={"v": 1}),
            provider_executed=True,
            provider_metadata={"anthropic": {"blockType": "tool_search_tool_result"}},
        ),
        TextPart(text="found"),
    ]
    assert answered(*parts) == [
        {"type": "server_tool_use", "id": "srv.1", "name": "web_search", "input": {"q": 1}},
        {"type": "web_search_tool_result", "tool_use_id": "srv.1", "content": FOUND},
        {"type": "tool_search_tool_result", "tool_use_id": "srv.2", "content": {"v": 1}},
        text("found"),
    ]


@pytest.mark.parametrize("name", ["web_search", "code_execution", "web_fetch"])
def test_results_of_known_hosted_tools_have_their_native_type(name: str) -> None:
    """LLM-223"""
    for kind in (f"{name}_result", f"{name}_tool_result_error"):
        result = ToolResult(type="json", value={"type": kind})
        part = ToolResultPart(id="s", name=name, result=result, provider_executed=True)
        assert answered(part)[0]["type"] == f"{name}_tool_result"


def test_a_call_of_a_remote_server_goes_back_as_it_came() -> None:
    """LLM-231"""
    native = {"anthropic": {"blockType": "mcp_tool_use", "serverName": "tools"}}
    call = ToolCallPart(id="m", name="echo", input={"a": 1}, provider_executed=True, provider_metadata=native)
    result = ToolResultPart(
        id="m",
        name="echo",
        result=ToolResult(type="json", value=[]),
        provider_executed=True,
        provider_metadata={"anthropic": {"blockType": "mcp_tool_result"}},
    )
    assert answered(call, result) == [
        {"type": "mcp_tool_use", "id": "m", "name": "echo", "server_name": "tools", "input": {"a": 1}},
        {"type": "mcp_tool_result", "tool_use_id": "m", "content": []},
    ]


@pytest.mark.parametrize(("name", "value"), [("file_search", 1), ("web_search", {"error": "x"}), ("web_search", 1)])
def test_a_hosted_call_of_another_provider_is_sent_as_text(name: str, value: Any) -> None:
    """LLM-223, LLM-403: call and result together, since one without the other is refused."""
    call = ToolCallPart(id="s", name=name, input={"q": 1}, provider_executed=True)
    part = ToolResultPart(id="s", name=name, result=ToolResult(type="json", value=value), provider_executed=True)
    note = f'[The provider\'s tool {name} was used with {{"q":1}}; its result is not repeated here.]'
    assert answered(call, part, TextPart(text="found")) == [text(note), text("found")]


def test_text_after_a_call_is_moved_before_it() -> None:
    """LLM-225: the other order is refused, as a recording shows."""
    assert [block["type"] for block in answered(call("a"), TextPart(text="t"), call("b"), TextPart(text="u"))] == [
        *("text", "text", "tool_use", "tool_use"),
    ]


@pytest.mark.parametrize("given_input", ["raw text", None, [1], 5])
def test_a_call_without_an_object_goes_back_with_an_empty_one(given_input: Any) -> None:
    """LLM-162, LLM-163"""
    (block,) = answered(ToolCallPart(id="c", name="f", input=given_input))
    assert block["input"] == {}


# -- results ---------------------------------------------------------------------------------------------------------


def test_results_and_the_text_after_them_are_one_message() -> None:
    """LLM-224, LLM-225"""
    messages = [
        user("x"),
        assistant(call("a"), call("b")),
        tool_result("a", "get_weather", ToolResult(type="text", value="one")),
        tool_result("b", "get_weather", ToolResult(type="error", value={"error": "no"})),
        user("and?"),
        user("well?"),
    ]
    assert lowered(CLAUDE, *messages)[2:] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                {"type": "tool_result", "tool_use_id": "b", "content": '{"error":"no"}', "is_error": True},
                text("and?"),
                text("well?"),
            ],
        }
    ]


def content_of(*items: dict[str, Any]) -> Any:
    part = tool_result("c", "get_weather", {"type": "content", "value": list(items)})
    return lowered(CLAUDE, user("x"), assistant(call("c")), part)[2]["content"][0]["content"]


def test_a_result_may_hold_text_and_images() -> None:
    """LLM-195, LLM-224"""
    file = {"type": "file", "uri": f"data:image/png;base64,{PNG}", "mime": "image/png"}
    assert content_of(text("t"), text(""), text(" \n"), file) == [text("t"), IMAGE_BLOCK]


def test_ids_of_others_change_alike_in_call_and_result() -> None:
    """LLM-173"""
    sent = lowered(CLAUDE, user("x"), assistant(call("gemini.call:é/1")), tool_result("gemini.call:é/1", "f", 1))
    id = sent[1]["content"][0]["id"]
    assert sent[2]["content"][0]["tool_use_id"] == id
    assert set(id) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


# -- media -----------------------------------------------------------------------------------------------------------


def test_images_documents_and_text_files() -> None:
    """LLM-193, LLM-198, LLM-190"""
    pdf = MediaPart(media_type="application/pdf", data=b"%PDF", filename="a.pdf")
    note = MediaPart(media_type="text/markdown", data="# grüße".encode(), filename="note.md")
    (message,) = lowered(CLAUDE, user("a", IMAGE, pdf, note))
    assert message["content"][:3] == [
        text("a"),
        IMAGE_BLOCK,
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
        },
    ]
    assert "note.md" in message["content"][3]["text"]
    assert "# grüße" in message["content"][3]["text"]


@pytest.mark.parametrize("kind", ["image/png", "image/jpeg", "image/gif", "image/webp", "image/JPG"])
def test_every_supported_image_type_is_sent_to_anthropic(kind: str) -> None:
    """LLM-190, LLM-191"""
    (message,) = lowered(CLAUDE, user(MediaPart(media_type=kind, data=b"\x01")))
    assert message["content"][0]["source"]["media_type"] == kind.lower().replace("jpg", "jpeg")


@pytest.mark.parametrize("kind", ["image/bmp", "video/mp4", "application/zip", "audio/wav"])
def test_media_that_anthropic_does_not_take_is_named(kind: str) -> None:
    """LLM-190, LLM-400"""
    (message,) = lowered(CLAUDE, user(MediaPart(media_type=kind, data=b"\x01", filename="a.b")))
    assert message["content"] == [text(f"[a.b was left out: Anthropic Messages requests cannot hold {kind}]")]


def test_a_model_without_eyes_is_told_so() -> None:
    """LLM-199"""
    blind = replace_capabilities(CLAUDE, images=False)
    assert lowered(blind, user("a", IMAGE)) == [{"role": "user", "content": [text("a"), text(NO_IMAGE)]}]


# -- nothing to see --------------------------------------------------------------------------------------------------


def test_text_of_only_white_space_is_left_out() -> None:
    """LLM-033: this provider calls it blank and refuses it, for the rest of the session."""
    assert lowered(
        CLAUDE,
        user("a", " \n"),
        assistant("\n\n", call("c")),
        tool_result("c", "get_weather", 1),
        user("\t"),
        user("b"),
    ) == lowered(CLAUDE, user("a"), assistant(call("c")), tool_result("c", "get_weather", 1), user("b"))
    with pytest.raises(LLMError):
        _ = prepare(CLAUDE, make_request(prompt=" \n")).body
    assert "system" not in body(CLAUDE, make_request(system=[" ", ""], prompt="x"))


# -- growing ---------------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(conversations(), st.booleans())
def test_a_request_is_a_prefix_of_the_next(additions: list[list[Message]], images: bool) -> None:
    """LLM-219, LLM-120"""
    bodies = requests_of(replace_capabilities(CLAUDE, images=images), additions)
    for before, after in itertools.pairwise(bodies):
        assert after.startswith(unclosed(before))


@settings(max_examples=150, deadline=None)
@given(conversations(), st.sampled_from([None, "system"]))
def test_lowering_message_by_message_gives_the_same_bytes(additions: list[list[Message]], role: str | None) -> None:
    """LLM-219"""
    model = replace_capabilities(CLAUDE, chronological_system=role)
    assert grown(model, additions) == requests_of(model, additions)


@settings(max_examples=100, deadline=None)
@given(conversations(), st.sampled_from([None, "system"]))
def test_every_body_is_what_the_provider_takes(additions: list[list[Message]], role: str | None) -> None:
    """LLM-033, LLM-225, LLM-125: no empty block or message, results first in the message after their calls."""
    for data in requests_of(replace_capabilities(CLAUDE, chronological_system=role), additions):
        waiting: list[str] = []
        for message in decode_any(data)["messages"]:
            blocks = message["content"]
            assert blocks
            assert all(block["text"].strip() for block in blocks if block["type"] == "text")
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            assert results == waiting
            assert all(block["type"] == "tool_result" for block in blocks[: len(results)])
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert waiting == []
