"""Bedrock Converse: bodies as they go out, streams as they come in."""

from __future__ import annotations

import base64
import contextlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.llm.aws_frames import event, exception, frame
from tests.llm.cassettes import either_cassettes
from tests.llm.lifecycle_checker import check_lifecycle

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError, classify
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.protocols.bedrock_converse import NO_OUTPUT, NO_TOOLS, WITHHELD, BedrockConverse
from holdfast.llm.protocols.bedrock_stream import ConverseDecoder
from holdfast.llm.request import (
    NO_CACHE,
    CacheHint,
    CachePolicy,
    Generation,
    HttpOverlay,
    MediaPart,
    Message,
    ReasoningPart,
    Request,
    SystemPart,
    TextPart,
    ToolCallPart,
    ToolDefinition,
    ToolResult,
    ToolResultPart,
    assistant,
    make_request,
    tool_result,
    update,
    user,
)
from holdfast.llm.response import fold
from holdfast.llm.route.eventstream import AwsFrames
from holdfast.llm.route.route import Route
from holdfast.llm.stream import Prepared, prepare
from holdfast.schema.codec import decode_any
from holdfast.schema.session_message import FileContent, TextContent

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
ROUTE = Route("amazon-bedrock", BedrockConverse(), "https://bedrock-runtime.us-east-1.amazonaws.com")
POINT = {"cachePoint": {"type": "default"}}
HOUR_POINT = {"cachePoint": {"type": "default", "ttl": "1h"}}
PNG = base64.b64encode(b"\x89PNG").decode()
WEATHER = ToolDefinition(
    name="get_weather",
    description="Get current weather for a city.",
    input_schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
WEATHER_SPEC = {
    "toolSpec": {
        "name": "get_weather",
        "description": "Get current weather for a city.",
        "inputSchema": {"json": WEATHER.input_schema},
    }
}


def model(capabilities: Capabilities = Capabilities(), id: str = CLAUDE, **more: Any) -> Model:  # noqa: B008
    return Model(id, "amazon-bedrock", ROUTE, capabilities=capabilities, **more)


def body(request: Request, on: Model | None = None) -> dict[str, Any]:
    found: dict[str, Any] = decode_any(prepare(on or model(), request).body)
    return found


def messages(*history: Message, cache: CachePolicy | None = NO_CACHE, on: Model | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body(make_request(messages=history, cache=cache), on)["messages"]
    return found


def call(id: str = "t1", name: str = "get_weather", **given: Any) -> ToolCallPart:
    return ToolCallPart(id=id, name=name, input=given)


def result(value: Any, *, id: str = "t1", type: str = "json") -> ToolResultPart:
    return ToolResultPart(id=id, name="get_weather", result=ToolResult(type=type, value=value))  # type: ignore[arg-type]


def refused(history: Sequence[Message], on: Model | None = None) -> str:
    with pytest.raises(LLMError) as caught:
        messages(*history, on=on)
    assert caught.value.reason == "InvalidRequest"
    return caught.value.message


# -- the body ----------------------------------------------------------------------------------------------------


def test_a_full_bedrock_request_has_this_body() -> None:
    """LLM-292, LLM-293, LLM-300: every field, one message of each role, tools with a choice."""
    request = make_request(
        system=["Be brief.", "Be kind."],
        messages=[
            user("What is it like in Paris?"),
            assistant("Let me look.", call(city="Paris")),
            tool_result("t1", "get_weather", {"sky": "blue"}),
        ],
        tools=[WEATHER],
        tool_choice="required",
        generation=Generation(max_tokens=80, temperature=0.5, top_p=0.9, top_k=40, stop=("END",), seed=1),
        cache=NO_CACHE,
    )
    assert body(request) == {
        "modelId": CLAUDE,
        "inferenceConfig": {"maxTokens": 80, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
        "additionalModelRequestFields": {"top_k": 40},
        "toolConfig": {"tools": [WEATHER_SPEC], "toolChoice": {"any": {}}},
        "system": [{"text": "Be brief."}, {"text": "Be kind."}],
        "messages": [
            {"role": "user", "content": [{"text": "What is it like in Paris?"}]},
            {
                "role": "assistant",
                "content": [
                    {"text": "Let me look."},
                    {"toolUse": {"toolUseId": "t1", "name": "get_weather", "input": {"city": "Paris"}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "t1", "content": [{"json": {"sky": "blue"}}], "status": "success"}}
                ],
            },
        ],
    }


def test_empty_parts_of_the_body_are_left_out() -> None:
    """LLM-292: no `inferenceConfig`, no `system`, no `toolConfig`."""
    assert body(make_request(system="  ", prompt="hi", cache=NO_CACHE)) == {
        "modelId": CLAUDE,
        "messages": [{"role": "user", "content": [{"text": "hi"}]}],
    }


def test_the_path_encodes_the_model() -> None:
    """LLM-290."""
    assert BedrockConverse().path("a.b-c:0/x") == "/model/a.b-c%3A0%2Fx/converse-stream"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"toolChoice": {"auto": {}}}),
        ("required", {"toolChoice": {"any": {}}}),
        ("get_weather", {"toolChoice": {"tool": {"name": "get_weather"}}}),
        (None, {}),
    ],
)
def test_tool_choices_have_bedrocks_form(choice: str | None, expected: dict[str, Any]) -> None:
    """LLM-293."""
    request = make_request(prompt="hi", tools=[WEATHER], tool_choice=choice, cache=NO_CACHE)
    assert body(request)["toolConfig"] == {"tools": [WEATHER_SPEC], **expected}


def test_no_choice_of_tools_omits_them() -> None:
    """LLM-172."""
    assert "toolConfig" not in body(make_request(prompt="hi", tools=[WEATHER], tool_choice="none"))


def test_history_with_calls_keeps_its_tools_and_says_so_in_text() -> None:
    """LLM-172: Converse refuses calls in history without a tool list, and knows no choice of none."""
    history = (user("hi"), assistant(call()), tool_result("t1", "get_weather", "x"))
    request = make_request(messages=history, tools=[WEATHER], tool_choice="none", cache=NO_CACHE)
    sent = body(request)
    assert sent["toolConfig"] == {"tools": [WEATHER_SPEC]}
    assert sent["messages"][-1]["content"][-1] == {"text": NO_TOOLS}


def test_withheld_tools_are_named_by_what_was_called() -> None:
    """LLM-172: also when the tool list itself is gone."""
    history = (user("hi"), assistant(call()), tool_result("t1", "get_weather", "x"), user("now answer"))
    sent = body(make_request(messages=history, cache=NO_CACHE))
    assert sent["toolConfig"] == {
        "tools": [
            {
                "toolSpec": {
                    "name": "get_weather",
                    "description": WITHHELD,
                    "inputSchema": {"json": {"type": "object"}},
                }
            }
        ]
    }
    assert sent["messages"][-1]["content"][1:] == [{"text": "now answer"}, {"text": NO_TOOLS}]


def test_an_instruction_for_one_request_is_not_part_of_the_next() -> None:
    """LLM-172: the instruction is not sealed into the conversation."""
    history = (user("hi"), assistant(call()), tool_result("t1", "get_weather", "x"))
    prepared = prepare(model(), make_request(messages=history, tools=[WEATHER], tool_choice="none", cache=NO_CACHE))
    assert NO_TOOLS in prepared.body.decode()
    prepared.extend([assistant("Sunny.")])
    assert NO_TOOLS not in prepared.body.decode()


def test_an_input_schema_is_an_object_and_a_blank_description_is_left_out() -> None:
    """LLM-300."""
    bare = ToolDefinition(name="bare", description="", input_schema={"properties": {}})
    assert body(make_request(prompt="hi", tools=[bare], cache=NO_CACHE))["toolConfig"] == {
        "tools": [{"toolSpec": {"name": "bare", "inputSchema": {"json": {"properties": {}, "type": "object"}}}}]
    }


def test_the_schema_dialect_of_the_model_comes_first() -> None:
    """LLM-166."""
    tool = ToolDefinition(
        name="pick",
        description="d",
        input_schema={"type": "object", "properties": {"n": {"type": "integer", "enum": [1]}}},
    )
    sent = body(make_request(prompt="hi", tools=[tool], cache=NO_CACHE), model(compatibility="gemini"))
    assert sent["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"]["properties"] == {
        "n": {"type": "string", "enum": ["1"]}
    }


def test_fields_of_the_model_itself() -> None:
    """LLM-292: `additionalModelRequestFields` from options, controls and overlay, merged."""
    request = make_request(
        prompt="hi",
        cache=NO_CACHE,
        generation=Generation(top_k=5),
        provider_options={
            "bedrock": {
                "thinking": {"type": "enabled", "budgetTokens": 2000},
                "additionalModelRequestFields": {"a": 1, "deep": {"x": 1}},
            }
        },
        http=HttpOverlay(body={"additionalModelRequestFields": {"deep": {"y": 2}}, "requestMetadata": {"k": "v"}}),
    )
    sent = body(request)
    assert sent["additionalModelRequestFields"] == {
        "a": 1,
        "deep": {"x": 1, "y": 2},
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "top_k": 5,
    }
    assert sent["requestMetadata"] == {"k": "v"}


@pytest.mark.parametrize(
    ("thinking", "capabilities", "expected"),
    [
        ({"type": "adaptive"}, Capabilities(), {"type": "adaptive"}),
        ({"type": "disabled"}, Capabilities(), {"type": "disabled"}),
        ({"type": "enabled"}, Capabilities(thinking="adaptive"), {"type": "adaptive"}),
        ({"type": "dreaming"}, Capabilities(), None),
        ("yes", Capabilities(), None),
    ],
)
def test_thinking_has_the_form_that_the_claude_model_takes(
    thinking: Any, capabilities: Capabilities, expected: dict[str, Any] | None
) -> None:
    """LLM-226: for Claude behind Converse, the form that the model takes."""
    request = make_request(prompt="hi", provider_options={"bedrock": {"thinking": thinking}})
    assert body(request, model(capabilities)).get("additionalModelRequestFields", {}).get("thinking") == expected


def test_thinking_without_a_budget_is_refused() -> None:
    """LLM-226."""
    with pytest.raises(LLMError, match="budget"):
        body(make_request(prompt="hi", provider_options={"bedrock": {"thinking": {"type": "enabled"}}}))


def test_sampling_controls_are_dropped_where_the_model_takes_none() -> None:
    """LLM-226."""
    controls = Generation(max_tokens=5, temperature=0, top_p=1, top_k=3)
    sent = body(make_request(prompt="hi", generation=controls, cache=NO_CACHE), model(Capabilities(sampling=False)))
    assert (sent["inferenceConfig"], "additionalModelRequestFields" in sent) == ({"maxTokens": 5}, False)


# -- messages ----------------------------------------------------------------------------------------------------


def test_adjacent_messages_of_a_role_become_one() -> None:
    """LLM-300: parallel results, text and a system update after them are one user message."""
    assert messages(
        user("one"),
        user("two"),
        assistant("a"),
        assistant(call("t1"), call("t2")),
        tool_result("t1", "get_weather", {"n": 1}),
        tool_result("t2", "get_weather", {"n": 2}),
        user("three"),
        update("mind the <gap>"),
    ) == [
        {"role": "user", "content": [{"text": "one"}, {"text": "two"}]},
        {
            "role": "assistant",
            "content": [
                {"text": "a"},
                {"toolUse": {"toolUseId": "t1", "name": "get_weather", "input": {}}},
                {"toolUse": {"toolUseId": "t2", "name": "get_weather", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "t1", "content": [{"json": {"n": 1}}], "status": "success"}},
                {"toolResult": {"toolUseId": "t2", "content": [{"json": {"n": 2}}], "status": "success"}},
                {"text": "three"},
                {"text": "<system-update>\nmind the &lt;gap&gt;\n</system-update>"},
                {"text": NO_TOOLS},
            ],
        },
    ]


def test_a_system_update_after_the_assistant_is_a_user_message() -> None:
    """LLM-122, LLM-124: no native role here, whatever the model says of itself."""
    on = model(Capabilities(chronological_system="system"))
    assert messages(user("hi"), assistant("a"), update("new"), on=on)[2:] == [
        {"role": "user", "content": [{"text": "<system-update>\nnew\n</system-update>"}]}
    ]


def test_a_system_update_may_not_part_a_call_from_its_result() -> None:
    """LLM-126."""
    assert "between" in refused([user("hi"), assistant(call()), update("x"), tool_result("t1", "get_weather", "y")])


def test_media_in_a_system_update_is_refused() -> None:
    """LLM-127."""
    media = MediaPart(media_type="image/png", data=PNG)
    assert "Bedrock Converse" in refused([Message(role="system", content=(media,))])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ToolResult(type="json", value={"a": [1, "é"]}), {"json": {"a": [1, "é"]}}),
        (ToolResult(type="text", value="plain"), {"text": "plain"}),
        (ToolResult(type="json", value=[1, 2]), {"text": "[1,2]"}),
        (ToolResult(type="json", value="word"), {"text": '"word"'}),
        (ToolResult(type="json", value=None), {"text": "null"}),
        (ToolResult(type="json", value={"x": {"__type": "T"}}), {"text": '{"x":{"__type":"T"}}'}),
        (ToolResult(type="text", value=" \n"), {"text": NO_OUTPUT}),
        (ToolResult(type="content", value=()), {"text": NO_OUTPUT}),
        (ToolResult(type="content", value=(TextContent(text=""),)), {"text": NO_OUTPUT}),
    ],
)
def test_an_object_result_is_json_and_any_other_is_text(given: ToolResult, expected: dict[str, Any]) -> None:
    """LLM-293: `{json}` for what the provider's document type takes, which is an object; anything else is `{text}`,
    and never blank."""
    part = ToolResultPart(id="t1", name="get_weather", result=given)
    sent = messages(Message(role="tool", content=(part,)))[0]["content"][0]
    assert sent == {"toolResult": {"toolUseId": "t1", "content": [expected], "status": "success"}}


@pytest.mark.parametrize(
    ("value", "text"),
    [("it broke", "it broke"), ({"code": 503}, '{"code":503}'), (ValueError("boom"), "ValueError: boom")],
)
def test_a_failed_result_has_status_error(value: Any, text: str) -> None:
    """LLM-293, LLM-165."""
    sent = messages(Message(role="tool", content=(result(value, type="error"),)))[0]["content"][0]
    assert sent == {"toolResult": {"toolUseId": "t1", "content": [{"text": text}], "status": "error"}}


def test_images_in_tool_results_are_image_items() -> None:
    """LLM-195: as image items."""
    items = (
        TextContent(text="look"),
        FileContent(uri=f"data:image/png;base64,{PNG}", mime="image/png"),
        FileContent(uri=PNG, mime="image/jpg"),
    )
    sent = messages(Message(role="tool", content=(result(items, type="content"),)))[0]["content"][0]
    assert sent["toolResult"]["content"] == [
        {"text": "look"},
        {"image": {"format": "png", "source": {"bytes": PNG}}},
        {"image": {"format": "jpeg", "source": {"bytes": PNG}}},
    ]


def test_other_files_in_results_are_named_or_text() -> None:
    """LLM-195, LLM-400."""
    items = (FileContent(uri=PNG, mime="application/pdf", name="a.pdf"), FileContent(uri="aGk=", mime="text/css"))
    sent = messages(Message(role="tool", content=(result(items, type="content"),)))[0]["content"][0]
    assert sent["toolResult"]["content"] == [
        {"text": "[a.pdf was left out: Bedrock Converse requests cannot hold application/pdf]"},
        {"text": "[file: text/css]\nhi"},
    ]


def test_images_of_a_user_are_sent_by_format() -> None:
    """LLM-193, LLM-194: `image/jpg` counts as jpeg."""
    parts = [MediaPart(media_type=f"image/{kind}", data=PNG) for kind in ("png", "JPEG", "jpg", "gif", "webp")]
    assert messages(user(*parts)) == [
        {
            "role": "user",
            "content": [
                {"image": {"format": kind, "source": {"bytes": PNG}}} for kind in ("png", "jpeg", "jpeg", "gif", "webp")
            ],
        }
    ]


def test_an_image_for_a_model_that_cannot_see() -> None:
    """LLM-199."""
    blind = model(Capabilities(images=False))
    sent = messages(user("look", MediaPart(media_type="image/png", data=PNG)), on=blind)
    assert sent[0]["content"][1] == {"text": "[an image was left out: this model cannot see images]"}


@pytest.mark.parametrize(
    ("mime", "format"),
    [
        ("application/pdf", "pdf"),
        ("text/csv", "csv"),
        ("application/msword", "doc"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
        ("application/vnd.ms-excel", "xls"),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
        ("text/html", "html"),
        ("text/plain; charset=utf-8", "txt"),
        ("text/markdown", "md"),
    ],
)
def test_documents_are_sent_by_format_under_an_allowed_name(mime: str, format: str) -> None:
    """LLM-194: by format, under a name made from it. LLM-198: in the alphabet that names have."""
    sent = messages(user("read", MediaPart(media_type=mime, data=PNG)))[0]["content"][1]
    assert sent == {"document": {"format": format, "name": f"document-{format}", "source": {"bytes": PNG}}}


def test_document_names_are_cleaned_and_unique() -> None:
    """LLM-198: only letters, digits, spaces and `-()[]`; the provider also refuses the same name twice."""
    names = ["Q3 report.pdf", "Q3  report.pdf", "a (1) [x].pdf", "übung/plan.pdf", "…", "x" * 300]
    parts = [MediaPart(media_type="application/pdf", data=PNG, filename=name) for name in names]
    sent = [block["document"]["name"] for block in messages(user("read", *parts))[0]["content"][1:]]
    assert sent == ["Q3 report-pdf", "Q3 report-pdf (2)", "a (1) [x]-pdf", "-bung-plan-pdf", "-", "x" * 180]


def test_a_document_does_not_come_without_a_text() -> None:
    sent = messages(user(MediaPart(media_type="application/pdf", data=PNG)))[0]["content"]
    assert [list(block) for block in sent] == [["document"], ["text"]]


@pytest.mark.parametrize("mime", ["image/bmp", "video/mp4"])
def test_media_that_bedrock_does_not_take_is_named(mime: str) -> None:
    """LLM-194, LLM-400."""
    (sent,) = messages(user("x", MediaPart(media_type=mime, data=PNG)))
    assert sent["content"][1] == {"text": f"[{mime} was left out: Bedrock Converse requests cannot hold {mime}]"}


def test_text_that_is_no_document_here_is_text() -> None:
    """LLM-198, LLM-400"""
    part = MediaPart(media_type="text/x-python", data=b"pass", filename="a.py")
    assert messages(user(part))[0]["content"] == [{"text": "[file: a.py]\npass"}]


def test_blank_texts_are_dropped() -> None:
    """LLM-033: the provider refuses them, also those of spaces alone."""
    assert messages(user("hi", " "), assistant("\n"), assistant(""), user("there")) == [
        {"role": "user", "content": [{"text": "hi"}, {"text": "there"}]}
    ]


def test_a_request_of_blanks_alone_is_refused() -> None:
    """LLM-033."""
    assert "at least one message" in refused([user("  ")])


def test_calls_come_after_texts() -> None:
    sent = messages(user("hi"), assistant(call(), "and now"))
    assert [list(block) for block in sent[1]["content"]] == [["text"], ["toolUse"]]


def test_input_that_is_no_object_is_replayed_empty() -> None:
    """LLM-163, LLM-162."""
    sent = messages(user("hi"), assistant(ToolCallPart(id="t", name="x", input="garbage")))
    assert sent[1]["content"][0]["toolUse"]["input"] == {}


def test_foreign_ids_are_made_acceptable_on_both_sides() -> None:
    """LLM-173: letters, digits, `_`, `-`, and at most 64 of them."""
    long = "call|" + "x" * 80
    sent = messages(
        user("hi"), assistant(call("a.b:c"), call(long)), Message(role="tool", content=(result(1, id=long),))
    )
    first, second = (block["toolUse"]["toolUseId"] for block in sent[1]["content"])
    assert first == "a_b_c"
    assert (len(second), second) == (64, sent[2]["content"][0]["toolResult"]["toolUseId"])


def test_hosted_tools_of_other_protocols_are_not_sent() -> None:
    """LLM-264: neither the call nor its result has a form here."""
    hosted = ToolCallPart(id="h", name="web_search", input={}, provider_executed=True)
    found = ToolResultPart(id="h", name="web_search", result=ToolResult(type="json", value=[]), provider_executed=True)
    sent = body(make_request(messages=[user("hi"), assistant(hosted, found, "text")], cache=NO_CACHE))
    assert (sent["messages"][1]["content"], "toolConfig" in sent) == ([{"text": "text"}], False)


# -- reasoning ---------------------------------------------------------------------------------------------------


def thought(text: str, **native: Any) -> ReasoningPart:
    return ReasoningPart(text=text, provider_metadata={"bedrock": native} if native else None)


def test_reasoning_goes_back_as_it_came() -> None:
    """LLM-293, LLM-298: with its signature, or redacted."""
    sent = messages(user("hi"), assistant(thought("hm", signature="s"), thought("", redactedContent="cmVk"), "a"))
    assert sent[1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": "cmVk"}},
        {"text": "a"},
    ]


def test_an_encrypted_reasoning_part_is_signed_by_it() -> None:
    sent = messages(user("hi"), assistant(ReasoningPart(text="hm", encrypted="e"), "a"))
    assert sent[1]["content"][0] == {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "e"}}}


def test_unsigned_reasoning_becomes_text_unless_the_model_takes_it() -> None:
    """LLM-142: an unsigned native block would be refused for the rest of the session."""
    history = (user("hi"), assistant(thought("hm"), thought(" "), "a"))
    assert messages(*history)[1]["content"] == [{"text": "hm"}, {"text": "a"}]
    takes = model(Capabilities(reasoning_replay=True))
    assert messages(*history, on=takes)[1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "hm"}}},
        {"text": "a"},
    ]


def test_metadata_of_another_protocol_is_not_sent() -> None:
    """LLM-147."""
    foreign = ReasoningPart(text="hm", provider_metadata={"anthropic": {"signature": "s"}})
    assert messages(user("hi"), assistant(foreign))[1]["content"] == [{"text": "hm"}]


def test_a_turn_of_thought_alone_is_left_out() -> None:
    """The provider would take it for a prefill."""
    assert messages(user("hi"), assistant(thought("hm", signature="s")), user("go on")) == [
        {"role": "user", "content": [{"text": "hi"}, {"text": "go on"}]}
    ]


# -- the cache ---------------------------------------------------------------------------------------------------

LOOP = (
    user("one"),
    assistant(call("t1")),
    tool_result("t1", "get_weather", {}),
    assistant(thought("hm", signature="s"), call("t2")),
    tool_result("t2", "get_weather", {}),
)


def places(sent: dict[str, Any]) -> list[str]:
    """Where the points are: a tool, the system text, or message and kind of block before it."""
    found = []
    for place in ("toolConfig", "system"):
        blocks = sent.get("toolConfig", {}).get("tools", []) if place == "toolConfig" else sent.get("system", [])
        found += [place for block in blocks if "cachePoint" in block]
    for index, message in enumerate(sent["messages"]):
        for before, block in zip([{}, *message["content"]], message["content"], strict=False):
            if "cachePoint" in block:
                found.append(f"{index}:{next(iter(before))}")
    return found


def test_default_cache_points_follow_tools_system_and_the_newest_two_user_messages() -> None:
    """LLM-215, LLM-217: a block after the tools, after the system text and after the newest two user messages, which in
    a tool loop are results; never after a thought."""
    sent = body(make_request(system="s", messages=LOOP, tools=[WEATHER]))
    assert places(sent) == ["toolConfig", "system", "2:toolResult", "4:toolResult"]
    assert sent["toolConfig"]["tools"] == [WEATHER_SPEC, POINT]
    assert sent["system"] == [{"text": "s"}, POINT]
    assert sent["messages"][4]["content"][1] == POINT


def test_points_move_with_the_conversation() -> None:
    """LLM-217: the older of the two stands where the previous request's newest stood."""
    prepared = prepare(model(), make_request(system="s", messages=LOOP[:3], tools=[WEATHER]))
    assert places(decode_any(prepared.body))[2:] == ["0:text", "2:toolResult"]
    prepared.extend(LOOP[3:])
    assert places(decode_any(prepared.body))[2:] == ["2:toolResult", "4:toolResult"]


def test_a_model_without_caching_gets_no_point_at_all() -> None:
    """LLM-300: not even where a hint asks for one."""
    request = make_request(
        system=[SystemPart(text="s", cache=CacheHint())], messages=LOOP, tools=[WEATHER], cache=CachePolicy(messages=4)
    )
    assert places(body(request, model(Capabilities(caching=False)))) == []


def test_a_model_that_takes_points_after_text_only() -> None:
    """LLM-300: not among its tools, nor after a result, where they are refused."""
    request = make_request(system="s", messages=(*LOOP, user("two")), tools=[WEATHER])
    assert places(body(request, model(Capabilities(cache_points="after-text")))) == ["system", "0:text", "4:text"]


def test_a_message_has_one_point_after_its_last_text_or_its_last_block() -> None:
    """LLM-212, LLM-300: which may be a result or an image; a hint in the message stands for it."""
    image = MediaPart(media_type="image/png", data=PNG)
    assert places(body(make_request(messages=[user("a", "b", image)]))) == ["0:text"]
    assert places(body(make_request(messages=[user(image)]))) == ["0:image"]
    hinted = ToolResultPart(id="t", name="x", result=ToolResult(type="json", value={}), cache=CacheHint())
    assert places(body(make_request(messages=[user("a"), Message(role="tool", content=(hinted,))]))) == [
        "toolConfig",
        "0:toolResult",
    ]


def test_hints_where_they_are_given() -> None:
    """LLM-212, LLM-123: manual hints go out without a policy, on an update too, and on text of the assistant."""
    request = make_request(
        system=[SystemPart(text="a", cache=CacheHint()), SystemPart(text="b")],
        messages=[
            user("x"),
            assistant(TextPart(text="y", cache=CacheHint())),
            Message(role="system", content=(TextPart(text="u", cache=CacheHint()),)),
        ],
        cache=NO_CACHE,
    )
    sent = body(request)
    assert places(sent) == ["system", "1:text", "2:text"]
    assert sent["system"] == [{"text": "a"}, POINT, {"text": "b"}]


def test_no_more_than_four_points() -> None:
    """LLM-214, LLM-217: spent on tools, system and hints; the moving points get what is left, the newest first."""
    hinted = [user(TextPart(text=str(index), cache=CacheHint())) for index in range(1)]
    request = make_request(
        system="s", messages=[*hinted, assistant("a"), user("b"), assistant("c"), user("d")], tools=[WEATHER]
    )
    assert places(body(request)) == ["toolConfig", "system", "0:text", "4:text"]
    tools = [msgspec.structs.replace(WEATHER, name=f"t{index}", cache=CacheHint()) for index in range(3)]
    assert places(body(make_request(messages=LOOP, tools=tools))) == [*["toolConfig"] * 3, "4:toolResult"]
    many = [
        message
        for index in range(6)
        for message in (user(TextPart(text=str(index), cache=CacheHint())), assistant("a"))
    ]
    assert len(places(body(make_request(system="s", messages=many, tools=[WEATHER])))) == 4
    assert len(places(body(make_request(messages=many, tools=[WEATHER], cache=CachePolicy(messages=9))))) == 4


def test_a_cache_lifetime_of_an_hour_never_follows_a_shorter_one() -> None:
    """LLM-213, LLM-217: an hour where asked for, and never after a shorter one."""
    hour = CachePolicy(ttl_seconds=3600)
    sent = body(make_request(system="s", messages=LOOP, tools=[WEATHER], cache=hour))
    assert sent["system"][1] == HOUR_POINT
    assert sent["messages"][4]["content"][1] == HOUR_POINT
    short = [SystemPart(text="s", cache=CacheHint(ttl_seconds=300))]
    sent = body(make_request(system=short, messages=LOOP, tools=[WEATHER], cache=hour))
    assert sent["toolConfig"]["tools"][1] == HOUR_POINT
    assert (sent["system"][1], sent["messages"][4]["content"][1]) == (POINT, POINT)


# -- growing -----------------------------------------------------------------------------------------------------

_texts = st.sampled_from(["a", "é\n", " ", "", "<&>"])
_ids = st.sampled_from(["t1", "t.2"])
_user_parts = st.one_of(
    _texts.map(lambda text: TextPart(text=text)),
    st.sampled_from(["application/pdf", "image/png"]).map(lambda mime: MediaPart(media_type=mime, data=PNG)),
)
_assistant_parts = st.one_of(
    _texts.map(lambda text: TextPart(text=text)),
    _texts.map(lambda text: thought(text)),
    _texts.map(lambda text: thought(text, signature="s")),
    _ids.map(lambda id: call(id, n=1)),
)
_message = st.one_of(
    st.lists(_user_parts, max_size=3).map(lambda parts: user(*parts)),
    st.lists(_assistant_parts, max_size=3).map(lambda parts: assistant(*parts)),
    st.tuples(_ids, st.sampled_from(["x", {"y": 1}, [1]])).map(lambda pair: tool_result(pair[0], "w", pair[1])),
)
_history = st.lists(st.one_of(_message, _texts.map(update)), max_size=8)


def _sendable(history: list[Message]) -> list[Message]:
    """Without updates that stand between a call and its result, which are refused."""
    kept: list[Message] = []
    is_open = False
    for message in history:
        calls = any(isinstance(part, ToolCallPart) for part in message.content)
        said = any(not isinstance(part, TextPart) or part.text.strip() for part in message.content)
        is_open = (is_open or calls) and not (message.role == "user" and said)
        if message.role != "system" or not is_open:
            kept.append(message)
    return kept


@given(_history, st.sampled_from(["anywhere", "after-text"]))
@example([assistant(call("t1", n=1)), user(" "), update("a")], "anywhere")
@settings(max_examples=80, deadline=None)
def test_one_batch_or_message_by_message_gives_the_same_bytes(history: list[Message], points: Any) -> None:
    """LLM-219."""
    on = model(Capabilities(cache_points=points))
    history = [user("start"), *_sendable(history)]
    request = make_request(system="s", messages=history, tools=[WEATHER])
    prepared = prepare(on, make_request(system="s", tools=[WEATHER]))
    for message in history:
        prepared.extend([message])
    assert prepared.body == prepare(on, request).body


@given(_history, _history)
@settings(max_examples=80, deadline=None)
def test_a_request_is_a_prefix_of_the_next(history: list[Message], more: list[Message]) -> None:
    """LLM-219: without its closing bytes and its points, whatever follows, also nothing."""
    history = [user("start"), *_sendable(history)]
    more = _sendable([*history, *more])[len(history) :]
    prepared = prepare(model(), make_request(system="s", tools=[WEATHER], messages=history))
    before = _unmarked(prepared)
    prepared.extend(more)
    assert _unmarked(prepared).startswith(before.removesuffix(b"]}]}"))


def _unmarked(prepared: Prepared) -> bytes:
    return b"".join(prepared.draft.chunks())


# -- decoding ----------------------------------------------------------------------------------------------------


def start(index: int = 0, **tool: Any) -> bytes:
    return event("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": tool}})


def delta(index: int = 0, **fields: Any) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": fields})


def stop(index: int = 0) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index})


def end(reason: str | None = "end_turn") -> bytes:
    return event("messageStop", {"stopReason": reason})


def usage(**counts: int) -> bytes:
    return event("metadata", {"usage": counts, "metrics": {"latencyMs": 3}})


BEGIN = event("messageStart", {"role": "assistant"})
COUNTED = {"inputTokens": 12, "outputTokens": 2, "totalTokens": 14}
USAGE = ev.Usage(input=12, output=2, total=14, non_cached=12, metadata={"bedrock": COUNTED})


def decode(*frames: bytes, size: int | None = None) -> list[ev.Event]:
    """All events of a stream; the order is checked on the way."""
    data = b"".join(frames)
    framing, decoder = AwsFrames(1 << 20), ConverseDecoder()
    size = size or len(data) or 1
    events: list[ev.Event] = []
    try:
        for position in range(0, len(data), size):
            for document in framing.feed(data[position : position + size]):
                events += decoder.feed(document)
        for document in framing.finish():
            events += decoder.feed(document)
        events += decoder.finish()
    except LLMError:
        check_lifecycle(events, complete=False)
        raise
    check_lifecycle(events)
    return events


def finished(reason: str, counted: ev.Usage | None = USAGE, native: str | None = None) -> list[ev.Event]:
    metadata = {"bedrock": {"stopReason": native}} if native else None
    return [ev.StepFinish(reason, counted, metadata=metadata), ev.Finish(reason, counted, metadata)]


def test_the_turn_ends_with_stop_and_usage() -> None:
    """LLM-426: not only when the connection closes."""
    framing, decoder = AwsFrames(1 << 20), ConverseDecoder()
    for document in framing.feed(delta(text="x") + stop() + end()):
        decoder.feed(document)
    assert not decoder.done
    (document,) = framing.feed(usage(**COUNTED))
    assert decoder.feed(document) == finished("stop", native="end_turn")
    assert (decoder.done, decoder.finish()) == (True, [])


def test_a_text_block_starts_with_its_first_delta() -> None:
    """LLM-297: text has no start of its own; the finish comes with the usage that follows the stop."""
    assert decode(BEGIN, delta(text="Hel"), delta(text="lo"), delta(text=""), stop(), end(), usage(**COUNTED)) == [
        ev.StepStart(),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "Hel"),
        ev.TextDelta("text-0", "lo"),
        ev.TextEnd("text-0"),
        *finished("stop", native="end_turn"),
    ]


def test_a_tool_call_is_complete_at_the_stop_of_its_block() -> None:
    """LLM-297, LLM-066, LLM-068: the call is there at its block's stop, before the end of the message."""
    frames = [
        BEGIN,
        delta(text="I look."),
        start(1, toolUseId="t1", name="get_weather"),
        delta(1, toolUse={"input": '{"city":'}),
        delta(1, toolUse={"input": ""}),
        delta(1, toolUse={"input": '"Paris"}'}),
        stop(1),
        end("tool_use"),
        usage(**COUNTED),
    ]
    events = decode(*frames)
    assert events == [
        ev.StepStart(),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "I look."),
        ev.TextEnd("text-0"),
        ev.ToolInputStart("t1", "get_weather"),
        ev.ToolInputDelta("t1", "get_weather", '{"city":'),
        ev.ToolInputDelta("t1", "get_weather", '"Paris"}'),
        ev.ToolInputEnd("t1", "get_weather"),
        ev.ToolCall("t1", "get_weather", {"city": "Paris"}),
        *finished("tool-calls", native="tool_use"),
    ]
    decoder = ConverseDecoder()
    early = [
        found for data in frames[:-2] for document in AwsFrames(1 << 20).feed(data) for found in decoder.feed(document)
    ]
    assert early == events[:-2]


def test_parallel_calls_and_no_arguments() -> None:
    """LLM-160: nothing means an empty object."""
    events = decode(
        start(0, toolUseId="a", name="x"),
        stop(0),
        start(1, toolUseId="b", name="y"),
        delta(1, toolUse={"input": "{}"}),
        stop(1),
        end("tool_use"),
    )
    assert [event for event in events if isinstance(event, ev.ToolCall)] == [
        ev.ToolCall("a", "x", {}),
        ev.ToolCall("b", "y", {}),
    ]


def test_a_forced_call_that_ends_with_end_turn() -> None:
    """LLM-101."""
    events = decode(start(toolUseId="a", name="x"), stop(), end("end_turn"))
    assert events[-1] == ev.Finish("tool-calls", None, {"bedrock": {"stopReason": "end_turn"}})


def test_reasoning_has_its_signature_at_the_stop_of_its_block() -> None:
    """LLM-298, LLM-070: attached at the block's stop, its pieces joined."""
    assert decode(
        delta(reasoningContent={"text": "hm"}),
        delta(reasoningContent={"signature": "si"}),
        delta(reasoningContent={"signature": "gn"}),
        stop(),
        delta(1, text="so"),
        stop(1),
        end(),
    ) == [
        ev.StepStart(),
        ev.ReasoningStart("reasoning-0"),
        ev.ReasoningDelta("reasoning-0", "hm"),
        ev.ReasoningEnd("reasoning-0", {"bedrock": {"signature": "sign"}}),
        ev.TextStart("text-1"),
        ev.TextDelta("text-1", "so"),
        ev.TextEnd("text-1"),
        *finished("stop", None, "end_turn"),
    ]


def test_redacted_reasoning_is_kept() -> None:
    """LLM-298: also in several pieces, each base64 for itself; and a signature without any text."""
    once = decode(delta(reasoningContent={"redactedContent": "cmVk"}), stop(), end())
    assert once[1:3] == [
        ev.ReasoningStart("reasoning-0"),
        ev.ReasoningEnd("reasoning-0", {"bedrock": {"redactedContent": "cmVk"}}),
    ]
    pieces = [delta(reasoningContent={"redactedContent": piece}) for piece in ("cg==", "ZWQ=")]
    assert decode(*pieces, stop(), end())[2] == once[2]
    silent = decode(delta(reasoningContent={"signature": "s"}), delta(reasoningContent={"text": ""}), end())
    assert silent[2] == ev.ReasoningEnd("reasoning-0", {"bedrock": {"signature": "s"}})


def test_a_decoded_turn_is_lowered_to_what_the_provider_said() -> None:
    """LLM-298, LLM-293: decoded, folded and lowered, a turn is what the provider said."""
    events = decode(
        delta(reasoningContent={"text": "hm"}),
        delta(reasoningContent={"signature": "s"}),
        stop(),
        delta(1, text="so"),
        stop(1),
        start(2, toolUseId="t1", name="get_weather"),
        stop(2),
        end("tool_use"),
    )
    assert messages(user("hi"), Message(role="assistant", content=fold(events).parts))[1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"text": "so"},
        {"toolUse": {"toolUseId": "t1", "name": "get_weather", "input": {}}},
    ]


def test_blocks_close_when_another_begins() -> None:
    """LLM-069: without a stop of their own; and a place that is used again gives a new block."""
    events = decode(
        delta(0, text="a"), delta(1, text="b"), delta(0, text="c"), delta(0, reasoningContent={"text": "d"}), end()
    )
    assert [event.id for event in events if isinstance(event, ev.TextStart | ev.ReasoningStart)] == [
        "text-0",
        "text-1",
        "text-0~1",
        "reasoning-0",
    ]


def test_a_block_ends_when_another_takes_its_place() -> None:
    """LLM-062, LLM-298: with what it had collected."""
    for next_one in (delta(0, text="so"), start(0, toolUseId="a", name="x")):
        events = decode(
            delta(0, reasoningContent={"text": "hm"}), delta(0, reasoningContent={"signature": "s"}), next_one, end()
        )
        assert events[3] == ev.ReasoningEnd("reasoning-0", {"bedrock": {"signature": "s"}})


def test_open_blocks_close_at_the_stop() -> None:
    """LLM-064, LLM-068: calls too."""
    events = decode(
        delta(0, reasoningContent={"text": "hm"}),
        delta(0, reasoningContent={"signature": "s"}),
        start(1, toolUseId="a", name="x"),
        delta(1, toolUse={"input": "{}"}),
        end("tool_use"),
    )
    assert events[4:-2] == [
        ev.ToolInputDelta("a", "x", "{}"),
        ev.ReasoningEnd("reasoning-0", {"bedrock": {"signature": "s"}}),
        ev.ToolInputEnd("a", "x"),
        ev.ToolCall("a", "x", {}),
    ]


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool-calls"),
        ("content_filtered", "content-filter"),
        ("guardrail_intervened", "content-filter"),
        ("malformed_model_output", "unknown"),
    ],
)
def test_stop_reasons_are_mapped_and_the_native_word_kept(native: str, reason: str) -> None:
    """LLM-100, LLM-105: the native word is kept."""
    assert decode(delta(text="x"), end(native))[-2:] == finished(reason, None, native)


def test_usage_without_a_stop_counts_as_one() -> None:
    """LLM-297."""
    assert decode(delta(text="x"), usage(**COUNTED))[-2:] == finished("stop")
    assert decode(delta(text="x"), event("metadata", {}))[-2:] == finished("stop", None)


def test_a_stop_without_a_reason() -> None:
    assert decode(delta(text="x"), event("messageStop", {}))[-1] == ev.Finish("unknown")


def test_an_answer_without_content_only_finishes() -> None:
    """LLM-061."""
    assert decode(BEGIN, end()) == [ev.StepStart(), *finished("stop", None, "end_turn")]


def test_events_after_the_stop_change_nothing() -> None:
    """LLM-065: nor does a second stop."""
    assert decode(
        delta(text="x"), end(), delta(text="y"), end("max_tokens"), start(9, toolUseId="a", name="x")
    ) == decode(delta(text="x"), end())


def test_a_stream_without_an_end_was_truncated() -> None:
    """LLM-343."""
    for frames in ([], [BEGIN], [BEGIN, delta(text="x"), stop()]):
        with pytest.raises(LLMError) as caught:
            decode(*frames)
        assert (caught.value.reason, caught.value.kind) == ("Transport", "truncated")


def test_half_a_character_is_replaced() -> None:
    """LLM-361"""
    cut = event("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"a\\ud83d"}}')
    assert ev.TextDelta("text-0", "a\ufffd") in decode(BEGIN, cut, end())


# -- broken arguments --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ['{"city":', "[1]", '"word"', "{} {}", "[" * 100_000])
def test_arguments_that_are_no_object(arguments: str) -> None:
    """LLM-162, LLM-163: an invalid call, not a failed turn."""
    events = decode(start(toolUseId="a", name="x"), delta(toolUse={"input": arguments}), stop(), end("tool_use"))
    (made,) = [event for event in events if isinstance(event, ev.ToolCall)]
    assert (made.input, made.raw, made.invalid is not None) == ({}, arguments, True)
    assert isinstance(events[-1], ev.Finish)


def test_arguments_cut_by_the_output_limit() -> None:
    """LLM-162: the call is dropped, although its block was stopped in order; text and usage survive."""
    broken = (start(1, toolUseId="a", name="x"), delta(1, toolUse={"input": '{"ci'}))
    for frames in ([*broken, stop(1)], broken):
        assert decode(delta(text="so"), *frames, end("max_tokens"), usage(**COUNTED))[4:] == [
            ev.ToolInputStart("a", "x"),
            ev.ToolInputDelta("a", "x", '{"ci'),
            ev.ToolInputEnd("a", "x"),
            *finished("length", native="max_tokens"),
        ]


def test_a_call_cut_before_its_arguments_is_not_a_call_without_any() -> None:
    """LLM-162."""
    events = decode(start(toolUseId="a", name="x"), end("max_tokens"))
    assert events[-3:-2] == [ev.ToolInputEnd("a", "x")]


def test_a_broken_call_before_another_block_was_not_cut() -> None:
    """LLM-162: the model went on after it, so it is answered as invalid even if the limit came later."""
    events = decode(
        start(0, toolUseId="a", name="x"),
        delta(0, toolUse={"input": "{"}),
        stop(0),
        start(1, toolUseId="b", name="y"),
        delta(1, toolUse={"input": "{"}),
        stop(1),
        end("max_tokens"),
    )
    assert [event.id for event in events if isinstance(event, ev.ToolCall)] == ["a"]


# -- usage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((10, 5, 115, 80, 20), (110, 10)),
        ((10, 5, None, 80, 20), (110, 10)),
        ((110, 5, 115, 80, 20), (110, 10)),
        ((110, 5, 215, 80, 20), (210, 110)),
        ((10, 5, 15, 80, 20), (110, 10)),
        ((10, 5, 15, 0, 0), (10, 10)),
        ((10, 5, 15, None, None), (10, 10)),
    ],
    ids=["exclusive", "no total", "inclusive", "exclusive, large", "contradictory", "nothing cached", "not reported"],
)
def test_the_total_tells_whether_input_tokens_hold_the_cached_ones(
    counts: tuple[int | None, ...], expected: tuple[int, int]
) -> None:
    """LLM-085, LLM-081: the total tells whether `inputTokens` holds the cached ones; absent, it does not."""
    names = ("inputTokens", "outputTokens", "totalTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
    raw = {name: count for name, count in zip(names, counts, strict=True) if count is not None}
    counted = fold(decode(delta(text="x"), end(), usage(**raw))).usage
    assert counted is not None
    assert (counted.input, counted.non_cached) == expected
    assert (counted.non_cached or 0) + (counted.cache_read or 0) + (counted.cache_write or 0) == counted.input
    assert counted.total == (counts[2] if counts[2] is not None else expected[0] + 5)
    assert (counted.cache_read, counted.cache_write) == counts[3:]
    assert counted.metadata == {"bedrock": raw}


def test_usage_that_bedrock_does_not_report_stays_absent() -> None:
    """LLM-081."""
    assert fold(decode(delta(text="x"), end(), event("metadata", {"usage": {}}))).usage == ev.Usage(
        metadata={"bedrock": {}}
    )


def test_zeros_do_not_replace_what_was_counted() -> None:
    counted = fold(decode(delta(text="x"), end(), usage(**COUNTED), usage(inputTokens=0, outputTokens=0))).usage
    assert counted == USAGE


# -- failures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason", "retryable"),
    [
        ("internalServerException", "ProviderInternal", True),
        ("modelStreamErrorException", "ProviderInternal", True),
        ("serviceUnavailableException", "ProviderInternal", True),
        ("throttlingException", "RateLimit", True),
        ("validationException", "InvalidRequest", False),
        ("somethingElseException", "UnknownProvider", False),
    ],
)
def test_an_exception_frame_fails_the_stream_with_the_usage_so_far(name: str, reason: str, retryable: bool) -> None:
    """LLM-296, LLM-299, LLM-342, LLM-090: not skipped; with the usage known so far, and nothing after it."""
    events = decode(BEGIN, delta(text="so"), usage(**COUNTED), exception(name, {"message": "it broke"}), end())
    assert events[3:] == [
        ev.TextEnd("text-0"),
        ev.ProviderError(f"{name}: it broke", reason=reason, retryable=retryable, code=name, usage=USAGE),
    ]


def test_an_error_frame_fails_the_stream() -> None:
    """LLM-296."""
    frames = frame({":message-type": "error", ":error-code": "InternalError", ":error-message": "broken"}, b"")
    assert decode(frames) == [ev.ProviderError("InternalError: broken", code="InternalError")]


def test_an_overflow_told_in_the_stream() -> None:
    """LLM-299: classified by its text."""
    events = decode(exception("validationException", {"message": "Input is too long for requested model."}))
    assert isinstance(events[0], ev.ProviderError)
    assert (events[0].reason, events[0].classification) == ("InvalidRequest", "context-overflow")


def test_throttling_is_not_an_overflow_whatever_it_says() -> None:
    """LLM-299, LLM-332: Bedrock's own sentence for throttling speaks of too many tokens."""
    (error,) = decode(
        exception("throttlingException", {"message": "Too many tokens, please wait before trying again."})
    )
    assert isinstance(error, ev.ProviderError)
    assert (error.reason, error.classification, error.retryable) == ("RateLimit", None, True)


def test_an_exception_without_a_readable_message() -> None:
    """LLM-296: what there is is told."""
    assert decode(exception("modelStreamErrorException", {"originalMessage": "upstream"})) == [
        ev.ProviderError(
            "modelStreamErrorException: upstream",
            reason="ProviderInternal",
            retryable=True,
            code="modelStreamErrorException",
        )
    ]
    (garbled,) = decode(exception("throttlingException", b"<html>"))
    assert isinstance(garbled, ev.ProviderError)
    assert (garbled.message, garbled.reason) == ("throttlingException: <html>", "RateLimit")
    (empty,) = decode(exception("", b""))
    assert isinstance(empty, ev.ProviderError)
    assert empty.message == "Bedrock Converse stream error"


def test_a_failure_in_the_middle_of_blocks() -> None:
    """LLM-062: everything open is closed; a call whose arguments were on the way is not made."""
    events = decode(
        delta(0, reasoningContent={"text": "hm"}),
        delta(0, reasoningContent={"signature": "s"}),
        start(1, toolUseId="a", name="x"),
        delta(1, toolUse={"input": "{"}),
        stop(1),
        exception("throttlingException", {"message": "slow down"}),
    )
    assert events[4:] == [
        ev.ToolInputDelta("a", "x", "{"),
        ev.ReasoningEnd("reasoning-0", {"bedrock": {"signature": "s"}}),
        ev.ToolInputEnd("a", "x"),
        ev.ProviderError(
            "throttlingException: slow down", reason="RateLimit", retryable=True, code="throttlingException"
        ),
    ]


@pytest.mark.parametrize(
    ("status", "name", "reason", "kind"),
    [
        (403, "ExpiredTokenException", "Authentication", "expired"),
        (403, "UnrecognizedClientException", "Authentication", "invalid"),
        (403, "InvalidSignatureException", "Authentication", "invalid"),
        (403, "AccessDeniedException", "Authentication", "insufficient-permissions"),
        (429, "ThrottlingException", "RateLimit", None),
        (429, "ModelNotReadyException", "RateLimit", None),
        (400, "ServiceQuotaExceededException", "QuotaExceeded", None),
        (400, "ValidationException", "InvalidRequest", None),
        (404, "ResourceNotFoundException", "InvalidRequest", None),
        (424, "ModelErrorException", "ProviderInternal", None),
        (408, "ModelTimeoutException", "ProviderInternal", None),
        (500, "InternalServerException", "ProviderInternal", None),
        (503, "ServiceUnavailableException", "ProviderInternal", None),
    ],
)
def test_a_refusal_before_the_stream_is_named_by_header_or_body(
    status: int, name: str, reason: str, kind: str | None
) -> None:
    """LLM-332: AWS names its errors in a header, or in the body."""
    for code, told in (
        (name, {"message": "m"}),
        (None, {"__type": f"com.amazon.coral.service#{name}", "message": "m"}),
    ):
        verdict = classify(status, told, "m", code)
        assert (verdict.reason, verdict.kind) == (reason, kind)


def test_an_overflow_before_the_stream() -> None:
    """LLM-332, LLM-333: and a throttling sentence about tokens is none."""
    text = "Input is too long for requested model."
    assert classify(400, {"message": text}, text, "ValidationException").classification == "context-overflow"
    busy = "Too many tokens, please wait before trying again."
    assert classify(429, {"message": busy}, busy, "ThrottlingException").reason == "RateLimit"
    assert classify(400, {"message": busy}, busy).classification is None


# -- what should not happen --------------------------------------------------------------------------------------


def test_unknown_events_are_ignored() -> None:
    """LLM-073: unknown types, kinds, starts and deltas."""
    strange = [
        event("somethingNew", b"not json"),
        frame({":message-type": "initial-response", ":event-type": "x"}, b"{}"),
        event("contentBlockStart", {"contentBlockIndex": 0, "start": {"image": {"format": "png"}}}),
        event("contentBlockStart", {"contentBlockIndex": 0}),
        event("contentBlockDelta", {"contentBlockIndex": 0}),
        delta(video={"x": 1}),
        stop(7),
    ]
    assert decode(*strange, delta(text="x"), end()) == decode(delta(text="x"), end())


@pytest.mark.parametrize(
    "bad",
    [
        event("contentBlockDelta", b"garbage"),
        event("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"\xff'),
        event("contentBlockDelta", {"contentBlockIndex": "0"}),
        event("contentBlockDelta", {"delta": {"text": "x"}}),
        event("contentBlockDelta", b"[" * 100_000),
        delta(text=5),
        delta(reasoningContent="hm"),
        delta(toolUse={"input": "{}"}),
        start(toolUseId="a"),
        start(toolUseId=1, name="x"),
        event("messageStop", {"stopReason": 1}),
        event("metadata", {"usage": "none"}),
        event("metadata", {"usage": {"inputTokens": "12"}}),
        start(toolUseId="a", name="x") + stop() + start(1, toolUseId="a", name="x"),
        delta(reasoningContent={"redactedContent": "c"}) + delta(reasoningContent={"redactedContent": "d"}) + stop(),
    ],
)
def test_events_of_the_wrong_shape_end_the_stream(bad: bytes) -> None:
    """LLM-073: InvalidProviderOutput, with what was read."""
    with pytest.raises(LLMError) as caught:
        decode(BEGIN, bad, end())
    assert caught.value.reason == "InvalidProviderOutput"


def test_a_frame_that_is_not_one_of_ours() -> None:
    with pytest.raises(LLMError) as caught:
        ConverseDecoder().feed(b'{"kind":1}')
    assert caught.value.reason == "InvalidProviderOutput"


def test_tools_of_the_provider_itself() -> None:
    """LLM-067: a call that Bedrock executes is not one for us, and its result comes along."""
    hosted = start(0, toolUseId="h", name="nova_grounding", type="server_tool_use")
    begun = event(
        "contentBlockStart", {"contentBlockIndex": 1, "start": {"toolResult": {"toolUseId": "h", "status": "success"}}}
    )
    events = decode(
        hosted, stop(0), begun, delta(1, toolResult=[{"json": {"n": 1}}]), stop(1), delta(2, text="so"), end()
    )
    assert events[3:5] == [
        ev.ToolCall("h", "nova_grounding", {}, provider_executed=True),
        ev.ToolResultEvent("h", "nova_grounding", ToolResult(type="json", value={"n": 1})),
    ]
    assert events[-1] == ev.Finish("stop", None, {"bedrock": {"stopReason": "end_turn"}})


@pytest.mark.parametrize(
    ("status", "pieces", "expected"),
    [
        ("success", [{"text": "a"}, {"text": "b"}], ToolResult(type="text", value="ab")),
        ("error", [{"text": "no"}], ToolResult(type="error", value="no")),
        (None, [{"text": "a"}, {"json": 1}], ToolResult(type="json", value=[{"text": "a"}, {"json": 1}])),
    ],
)
def test_results_of_the_provider_itself(status: str | None, pieces: list[Any], expected: ToolResult) -> None:
    begun = {"contentBlockIndex": 1, "start": {"toolResult": {"toolUseId": "h", "status": status}}}
    events = decode(
        start(0, toolUseId="h", name="w", type="server_tool_use"),
        stop(0),
        event("contentBlockStart", begun),
        delta(1, toolResult=pieces),
        end(),
    )
    assert [event.result for event in events if isinstance(event, ev.ToolResultEvent)] == [expected]


def test_a_result_for_no_call_of_the_provider_is_ignored() -> None:
    begun = event("contentBlockStart", {"contentBlockIndex": 1, "start": {"toolResult": {"toolUseId": "l"}}})
    events = decode(start(0, toolUseId="l", name="w"), stop(0), begun, delta(1, toolResult=[{"text": "x"}]), end())
    assert not any(isinstance(event, ev.ToolResultEvent) for event in events)


def test_citations_are_kept_with_their_text() -> None:
    """LLM-233: the same for Claude here as there."""
    events = decode(delta(text="so"), delta(citation={"title": "t"}), stop(), end())
    assert events[3] == ev.TextEnd("text-0", {"bedrock": {"citations": [{"title": "t"}]}})


# -- mutated streams ---------------------------------------------------------------------------------------------

SOUND = [
    BEGIN,
    delta(0, reasoningContent={"text": "hm"}),
    delta(0, reasoningContent={"signature": "s"}),
    delta(0, reasoningContent={"redactedContent": "cmVk"}),
    stop(0),
    delta(1, text="so"),
    stop(1),
    start(2, toolUseId="a", name="x"),
    delta(2, toolUse={"input": '{"n":'}),
    delta(2, toolUse={"input": "1}"}),
    stop(2),
    start(3, toolUseId="b", name="y", type="server_tool_use"),
    stop(3),
    event("contentBlockStart", {"contentBlockIndex": 4, "start": {"toolResult": {"toolUseId": "b"}}}),
    delta(4, toolResult=[{"text": "r"}]),
    stop(4),
    end("tool_use"),
    usage(**COUNTED),
    exception("throttlingException", {"message": "slow"}),
]
DOCUMENTS = [document for data in SOUND for document in AwsFrames(1 << 20).feed(data)]


@given(st.lists(st.integers(0, len(DOCUMENTS) - 1), max_size=30))
@settings(max_examples=150, deadline=None)
def test_any_order_of_frames_keeps_the_lifecycle(order: list[int]) -> None:
    """LLM-072."""
    _survives([DOCUMENTS[index] for index in order])


@given(st.randoms(use_true_random=False), st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_damaged_frames_give_nothing_but_our_error(chance: random.Random, count: int) -> None:
    """LLM-072, LLM-073."""
    documents = list(DOCUMENTS[: chance.randrange(1, len(DOCUMENTS) + 1)])
    for _ in range(count):
        index = chance.randrange(len(documents))
        documents[index] = _damaged(documents[index], chance)
    _survives(documents)


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_give_nothing_but_our_error(chance: random.Random) -> None:
    """LLM-072, LLM-294."""
    data = _damaged(b"".join(SOUND), chance)
    with contextlib.suppress(LLMError):
        decode(data, size=chance.choice([7, 100, None]))


def _damaged(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    match chance.randrange(4):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + chance.choice([b"null", b"1", b'"', b"{", b"\xff", b"\\"]) + data[at + 1 :]
        case 2:
            words = [b"text", b"toolUse", b"contentBlockIndex", b"stopReason", b":0", b"input", b"event", b"usage"]
            return data.replace(chance.choice(words), chance.choice(words))
        case _:
            return data[:at] + data[at + chance.randrange(8) :]


def _survives(documents: Sequence[bytes]) -> None:
    decoder = ConverseDecoder()
    events: list[ev.Event] = []
    complete = False
    with contextlib.suppress(LLMError):
        for document in documents:
            events += decoder.feed(document)
        events += decoder.finish()
        complete = True
    check_lifecycle(events, complete=complete)


# -- recorded traffic --------------------------------------------------------------------------------------------

TEXT_REQUEST = make_request(
    system="Reply with the single word 'Hello'.",
    prompt="Say hello.",
    generation=Generation(max_tokens=16, temperature=0),
    cache=NO_CACHE,
)
CALL_REQUEST = make_request(
    system="Call tools exactly as requested.",
    prompt="Call get_weather with city exactly Paris.",
    generation=Generation(max_tokens=80, temperature=0),
    tools=[WEATHER],
    tool_choice="get_weather",
    cache=NO_CACHE,
)


def cassette(cassettes: Path, name: str) -> dict[str, Any]:
    (interaction,) = decode_any((cassettes / "bedrock-converse" / f"{name}.json").read_bytes())["interactions"]
    found: dict[str, Any] = interaction
    return found


@either_cassettes
@pytest.mark.parametrize(("name", "request_"), [("streams-text", TEXT_REQUEST), ("streams-a-tool-call", CALL_REQUEST)])
def test_the_request_of_a_cassette_is_encoded_alike(cassettes: Path, name: str, request_: Request) -> None:
    """LLM-290, LLM-292, LLM-293: as the recorded one, but for the order of keys."""
    recorded = cassette(cassettes, name)["request"]
    nova = model(id="us.amazon.nova-micro-v1:0")
    assert body(request_, nova) == decode_any(recorded["body"])
    assert nova.route.url(nova.id, None) == recorded["url"]


@either_cassettes
@pytest.mark.parametrize("size", [1, 7, None])
def test_the_text_of_a_cassette_gives_the_same_events_at_any_chunking(cassettes: Path, size: int | None) -> None:
    """LLM-294, LLM-295, LLM-297."""
    data = base64.b64decode(cassette(cassettes, "streams-text")["response"]["body"])
    counted = ev.Usage(
        input=12,
        output=2,
        total=14,
        non_cached=12,
        metadata={"bedrock": {"inputTokens": 12, "outputTokens": 2, "serverToolUsage": {}, "totalTokens": 14}},
    )
    assert decode(data, size=size) == [
        ev.StepStart(),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "Hello"),
        ev.TextEnd("text-0"),
        *finished("stop", counted, "end_turn"),
    ]


@either_cassettes
@pytest.mark.parametrize("size", [1, 7, None])
def test_the_call_of_a_cassette_gives_the_same_events_at_any_chunking(cassettes: Path, size: int | None) -> None:
    """LLM-294, LLM-297."""
    data = base64.b64decode(cassette(cassettes, "streams-a-tool-call")["response"]["body"])
    id = next(event.id for event in decode(data) if isinstance(event, ev.ToolCall))
    name = "get_weather"
    counted = ev.Usage(
        input=419,
        output=16,
        total=435,
        non_cached=419,
        metadata={"bedrock": {"inputTokens": 419, "outputTokens": 16, "serverToolUsage": {}, "totalTokens": 435}},
    )
    assert decode(data, size=size) == [
        ev.StepStart(),
        ev.ToolInputStart(id, name),
        ev.ToolInputDelta(id, name, '{"city":"Paris"}'),
        ev.ToolInputEnd(id, name),
        ev.ToolCall(id, name, {"city": "Paris"}),
        *finished("tool-calls", counted, "tool_use"),
    ]
