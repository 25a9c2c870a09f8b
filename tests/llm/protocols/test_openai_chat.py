"""OpenAI Chat: what is sent."""

from __future__ import annotations

import base64
import itertools
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.support import (
    PNG,
    WEATHER,
    body,
    chat_model,
    conversations,
    grown,
    lowered,
    replace_capabilities,
    requests_of,
    unclosed,
)

from holdfast.llm.errors import LLMError
from holdfast.llm.media import NO_IMAGE
from holdfast.llm.model import Capabilities
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.request import (
    CacheHint,
    Generation,
    MediaPart,
    Message,
    Part,
    ReasoningPart,
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
from holdfast.llm.stream import http_request, prepare
from holdfast.schema.codec import decode_any

CHAT = chat_model()
IMAGE = MediaPart(media_type="image/png", data=PNG)
IMAGE_URL = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}


def result(id: str, *items: dict[str, Any]) -> Message:
    return tool_result(id, "get_weather", {"type": "content", "value": list(items)})


def text_item(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image_item(data: str = PNG) -> dict[str, Any]:
    return {"type": "file", "uri": f"data:image/png;base64,{data}", "mime": "image/png"}


def call(id: str, **given: Any) -> ToolCallPart:
    return ToolCallPart(id=id, name="get_weather", input=given)


# -- the body --------------------------------------------------------------------------------------------------------


def test_a_full_chat_request_has_this_body() -> None:
    """LLM-240, LLM-241, LLM-242, LLM-243, LLM-245"""
    request = make_request(
        system=[SystemPart(text="one", cache=CacheHint()), SystemPart(text="two")],
        messages=[
            user("a", "b"),
            assistant("c", "d", call("call_1", city="Zürich")),
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
        provider_options={"openai": {"store": False, "reasoningEffort": "high"}},
    )
    assert body(CHAT, request) == {
        "model": "gpt-4o-mini",
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
        "reasoning_effort": "high",
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "seed": 7,
        "stop": ["x", "y"],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "description": "Get current weather for a city.",
                    "parameters": WEATHER.input_schema,
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "messages": [
            {"role": "system", "content": "one\ntwo"},
            {"role": "user", "content": "ab"},
            {
                "role": "assistant",
                "content": "c\nd",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city":"Zürich"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": '{"temperature":22}'},
        ],
    }
    assert http_request(prepare(CHAT, request)).url == "https://api.openai.com/v1/chat/completions"


def test_absent_fields_are_not_sent_to_chat() -> None:
    """LLM-241"""
    assert body(CHAT, make_request(prompt="x")) == {
        "model": "gpt-4o-mini",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "x"}],
    }


def test_json_is_compact_and_not_escaped() -> None:
    """LLM-164, LLM-219"""
    request = make_request(
        messages=[user("é"), assistant(call("c", a="ü", b=[1, 2])), tool_result("c", "f", {"k": "ß"})]
    )
    sent = prepare(CHAT, request).body.decode()
    assert ": " not in sent
    assert ", " not in sent
    assert "\\u" not in sent
    assert r'"{\"a\":\"ü\",\"b\":[1,2]}"' in sent
    assert r'"{\"k\":\"ß\"}"' in sent


def test_capabilities_choose_the_limit_and_the_sampling() -> None:
    """LLM-241"""
    generation = Generation(
        max_tokens=5, temperature=1.0, top_p=1.0, presence_penalty=1.0, frequency_penalty=1.0, seed=1
    )
    model = replace_capabilities(CHAT, completion_tokens_field=True, sampling=False)
    sent = body(model, make_request(prompt="x", generation=generation))
    assert {
        key: value for key, value in sent.items() if key not in ("model", "stream", "stream_options", "messages")
    } == {
        "max_completion_tokens": 5,
        "seed": 1,
    }


@pytest.mark.parametrize("word", ["auto", "none", "required"])
def test_a_choice_by_word_keeps_the_tools(word: str) -> None:
    """LLM-245, LLM-172"""
    sent = body(CHAT, make_request(prompt="x", tools=[WEATHER], tool_choice=word))
    assert sent["tool_choice"] == word
    assert len(sent["tools"]) == 1


@pytest.mark.parametrize("name", ["get.weather", "a b", "", "x" * 65, "é"])
def test_a_tool_name_outside_the_alphabet_fails_here(name: str) -> None:
    """LLM-173"""
    tool = ToolDefinition(name=name, description="", input_schema={})
    with pytest.raises(LLMError) as caught:
        prepare(CHAT, make_request(prompt="x", tools=[tool]))
    assert (caught.value.reason, caught.value.parameter) == ("InvalidRequest", "tools")


def test_tools_are_sent_without_strict() -> None:
    """LLM-167"""
    assert b"strict" not in prepare(CHAT, make_request(prompt="x", tools=[WEATHER])).body


# -- messages --------------------------------------------------------------------------------------------------------


def test_an_assistant_without_text_has_null_content() -> None:
    """LLM-242"""
    assert lowered(CHAT, user("a"), assistant(call("c")))[1]["content"] is None


@pytest.mark.parametrize("given_input", ['{"a', ["no"], None])
def test_input_that_is_no_object_goes_back_empty(given_input: Any) -> None:
    """LLM-162, LLM-163"""
    (sent,) = lowered(CHAT, user("x"), assistant(ToolCallPart(id="c", name="f", input=given_input)))[1]["tool_calls"]
    assert sent["function"]["arguments"] == "{}"


def test_reasoning_goes_back_only_to_who_takes_it() -> None:
    """LLM-242, LLM-244"""
    said = assistant(ReasoningPart(text="th"), ReasoningPart(text="ink"), TextPart(text="t"))
    assert lowered(CHAT, user("a"), said)[1] == {"role": "assistant", "content": "t"}
    assert lowered(replace_capabilities(CHAT, reasoning_replay=True), user("a"), said)[1] == {
        "role": "assistant",
        "content": "t",
        "reasoning_content": "think",
    }


def test_reasoning_details_go_back_under_their_own_namespace() -> None:
    """LLM-147"""
    router = replace_capabilities(chat_model(protocol=OpenAIChat(namespace="openrouter")), reasoning_replay=True)
    details = [{"type": "reasoning.encrypted", "data": "d"}]
    ours = ReasoningPart(text="", provider_metadata={"openrouter": {"reasoningDetails": details}})
    other = ReasoningPart(text="", provider_metadata={"openai": {"reasoningDetails": ["never"]}})
    assert lowered(router, user("a"), assistant(ours, other, TextPart(text="t")))[1] == {
        "role": "assistant",
        "content": "t",
        "reasoning_details": details,
    }


def test_details_that_were_kept_in_pieces_go_back_as_one() -> None:
    """LLM-147: also when a text came between them, and whatever shape they have."""
    router = chat_model(protocol=OpenAIChat(namespace="openrouter"), capabilities=Capabilities(reasoning_replay=True))
    one = {"type": "reasoning.text", "text": "a", "index": 0}
    two = {"type": "reasoning.text", "signature": "s", "index": 0}
    thoughts: list[Part] = [
        ReasoningPart(text="a", provider_metadata={"openrouter": {"reasoningDetails": [one]}}),
        TextPart(text="t"),
        ReasoningPart(text="", provider_metadata={"openrouter": {"reasoningDetails": [two, 5, {"type": []}]}}),
    ]
    sent = lowered(router, user("x"), assistant(*thoughts))[1]
    assert sent["reasoning_details"] == [
        {"type": "reasoning.text", "text": "a", "index": 0, "signature": "s"},
        5,
        {"type": []},
    ]


def test_an_assistant_with_nothing_left_is_omitted_but_not_its_results() -> None:
    """LLM-143"""
    messages = [user("a"), assistant(ReasoningPart(text="only a thought")), tool_result("c", "f", 1), user("b")]
    assert [message["role"] for message in lowered(CHAT, *messages)] == ["user", "tool", "user"]


@pytest.mark.parametrize(
    ("given_result", "content"),
    [
        (ToolResult(type="text", value="plain"), "plain"),
        (ToolResult(type="text", value=5), "5"),
        (ToolResult(type="json", value={"a": [1, None]}), '{"a":[1,null]}'),
        (ToolResult(type="json", value="text"), '"text"'),
        (ToolResult(type="json", value=None), "null"),
        (ToolResult(type="error", value="went wrong"), "went wrong"),
        (ToolResult(type="error", value=503), "503"),
        (ToolResult(type="error", value={"error": "x"}), '{"error":"x"}'),
        (ToolResult(type="error", value=ValueError("boom")), "ValueError: boom"),
        (ToolResult(type="content", value=[text_item("a"), text_item("b")]), "a\nb"),
        (ToolResult(type="content", value=[]), ""),
    ],
)
def test_tool_results_are_sent_as_text(given_result: ToolResult, content: str) -> None:
    """LLM-165, LLM-243, LLM-164"""
    part = ToolResultPart(id="c", name="f", result=given_result)
    assert lowered(CHAT, user("a"), Message(role="tool", content=(part,)))[1] == {
        "role": "tool",
        "tool_call_id": "c",
        "content": content,
    }


def test_parallel_results_are_messages_of_their_own() -> None:
    """LLM-243"""
    parts = tuple(ToolResultPart(id=id, name="f", result=ToolResult(type="text", value=id)) for id in ("a", "b"))
    both = lowered(CHAT, user("x"), Message(role="tool", content=parts))
    assert both == lowered(CHAT, user("x"), *(Message(role="tool", content=(part,)) for part in parts))
    assert [message["tool_call_id"] for message in both[1:]] == ["a", "b"]


# -- media -----------------------------------------------------------------------------------------------------------


def test_an_image_makes_the_content_a_list() -> None:
    """LLM-193, LLM-242"""
    assert lowered(CHAT, user("a", IMAGE, "b")) == [
        {"role": "user", "content": [text_item("a"), IMAGE_URL, text_item("b")]}
    ]


@pytest.mark.parametrize("kind", ["image/png", "image/jpeg", "image/gif", "image/webp", "IMAGE/PNG", "image/jpg"])
def test_every_supported_image_type_is_sent_to_chat(kind: str) -> None:
    """LLM-190, LLM-191"""
    (item,) = lowered(CHAT, user(MediaPart(media_type=kind, data=b"\x01")))[0]["content"]
    shown = "image/jpeg" if kind == "image/jpg" else kind.lower()
    assert item == {"type": "image_url", "image_url": {"url": f"data:{shown};base64,AQ=="}}


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n", PNG, f"data:image/png;base64,{PNG}", f"DATA:image/PNG;base64,{PNG}"]
)
def test_every_form_of_an_image_is_one(data: Any) -> None:
    """LLM-191"""
    assert lowered(CHAT, user(MediaPart(media_type="image/png", data=data)))[0]["content"] == [IMAGE_URL]


@pytest.mark.parametrize(
    "part",
    [
        MediaPart(media_type="image/png", data=f"data:image/gif;base64,{PNG}"),
        MediaPart(media_type="image/png", data=""),
        MediaPart(media_type="image/png", data=b""),
        MediaPart(media_type="image/png", data="AQ"),
        MediaPart(media_type="image/png", data="AR=="),
        MediaPart(media_type="image/png", data="not base64"),
        MediaPart(media_type="image/png", data="é"),
        MediaPart(media_type="image/png", data="data:image/png,plain"),
        MediaPart(media_type="image/png", data="https://example.com/a.png"),
        MediaPart(media_type="image/png", data="file:///etc/passwd"),
        MediaPart(media_type="image/svg+xml", data=PNG),
        MediaPart(media_type="application/pdf", data=PNG),
        MediaPart(media_type="video/mp4", data=PNG),
    ],
)
def test_media_that_cannot_be_sent_is_named(part: MediaPart) -> None:
    """LLM-190, LLM-191, LLM-198, LLM-400: whatever is wrong with it, the request is made."""
    for message in (user(part), result("c", {"type": "file", "uri": str(part.data), "mime": part.media_type})):
        content = lowered(CHAT, user("a"), assistant(call("c")), message)[-1]["content"]
        assert " was left out: " in content
        assert len(content) < 400


def test_media_beyond_the_limits_is_named() -> None:
    """LLM-192, LLM-400"""
    for data in (bytes(20 * 1024 * 1024 + 1), "A" * (28 * 1024 * 1024 + 4)):
        part = MediaPart(media_type="image/png", data=data, filename="a.png")
        note = "[a.png was left out: media of type image/png is larger than 20 MiB]"
        assert lowered(CHAT, user(part)) == [{"role": "user", "content": note}]
    largest = user(MediaPart(media_type="image/png", data=bytes(20 * 1024 * 1024)))
    assert len(prepare(CHAT, make_request(messages=[largest])).body) > 26 * 1024 * 1024


def test_a_text_file_is_text_under_its_name() -> None:
    """LLM-198, LLM-242: and where everything is text, it is one string."""
    part = MediaPart(media_type="text/plain", data="grüße".encode(), filename="a.txt")
    assert lowered(CHAT, user("see", part))[0]["content"] == "see\n[file: a.txt]\ngrüße"


def test_a_model_without_eyes_is_told_so() -> None:
    """LLM-199: in messages and in results."""
    blind = replace_capabilities(CHAT, images=False)
    assert lowered(blind, user("a", IMAGE)) == [{"role": "user", "content": f"a\n{NO_IMAGE}"}]
    answer = lowered(blind, user("a"), assistant(call("c")), result("c", image_item()))[-1]
    assert answer == {"role": "tool", "tool_call_id": "c", "content": NO_IMAGE}


def test_images_of_results_follow_the_whole_run() -> None:
    """LLM-195, LLM-196, LLM-197: texts stay with the result, and an update joins the images."""
    messages = [
        user("look"),
        assistant(call("a"), call("b"), call("c")),
        result("a", text_item("one"), image_item(), text_item("two")),
        result("b", image_item()),
        result("c", text_item("three")),
        update("mind the <gap>"),
        user("and?"),
    ]
    assert lowered(CHAT, *messages)[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": "one\ntwo"},
        {"role": "tool", "tool_call_id": "b", "content": ""},
        {"role": "tool", "tool_call_id": "c", "content": "three"},
        {
            "role": "user",
            "content": [
                IMAGE_URL,
                IMAGE_URL,
                text_item("<system-update>\nmind the &lt;gap&gt;\n</system-update>"),
            ],
        },
        {"role": "user", "content": "and?"},
    ]


def test_images_wait_for_the_results_that_are_still_to_come() -> None:
    """LLM-195: lowering in batches may not put them between."""
    history = [user("look"), assistant(call("a"), call("b")), result("a", image_item()), result("b", image_item())]
    prepared = prepare(CHAT, make_request(messages=history[:3]))
    prepared.extend(history[3:])
    assert prepared.body == prepare(CHAT, make_request(messages=history)).body
    assert [message["role"] for message in decode_any(prepared.body)["messages"]] == [
        *("user", "assistant", "tool", "tool", "user"),
    ]


def test_base64_is_never_inside_a_text() -> None:
    """LLM-197"""
    data = base64.b64encode(bytes(range(200))).decode()
    sent = lowered(CHAT, user("a"), assistant(call("c")), result("c", text_item("t"), image_item(data)))
    assert [message["content"] for message in sent if isinstance(message["content"], str)] == ["a", "t"]
    assert data in str(sent[-1])


# -- growing ---------------------------------------------------------------------------------------------------------

VARIANTS: list[dict[str, Any]] = [
    {},
    {"inline_cache": True},
    {"reasoning_replay": True, "images": False},
    {"chronological_system": "developer"},
]


@settings(max_examples=120, deadline=None)
@given(conversations(), st.sampled_from(VARIANTS))
def test_a_request_is_a_prefix_of_the_next(additions: list[list[Message]], capabilities: dict[str, Any]) -> None:
    """LLM-219, LLM-120: so that the provider's cache sees one growing prefix, whatever was added."""
    bodies = requests_of(replace_capabilities(CHAT, **capabilities), additions)
    for before, after in itertools.pairwise(bodies):
        assert after.startswith(unclosed(before))


@settings(max_examples=120, deadline=None)
@given(conversations(), st.sampled_from(VARIANTS))
def test_lowering_message_by_message_gives_the_same_bytes(
    additions: list[list[Message]], capabilities: dict[str, Any]
) -> None:
    """LLM-219"""
    model = replace_capabilities(CHAT, **capabilities)
    assert grown(model, additions) == requests_of(model, additions)


@settings(max_examples=60, deadline=None)
@given(conversations())
def test_every_body_is_json_and_pairs_calls_with_results(additions: list[list[Message]]) -> None:
    """LLM-243"""
    for data in requests_of(CHAT, additions):
        sent = decode_any(data)
        called = [item["id"] for message in sent["messages"] for item in message.get("tool_calls", ())]
        answered = [message["tool_call_id"] for message in sent["messages"] if message["role"] == "tool"]
        assert called == answered


def test_extending_costs_what_is_added() -> None:
    """LLM-364: a long history is not lowered again."""
    prepared = prepare(CHAT, make_request(messages=[user("x" * 200)] * 20_000))
    started = time.process_time()
    for _ in range(200):
        prepared.extend([user("more")])
    assert time.process_time() - started < 1
