"""Gemini: what is sent."""

from __future__ import annotations

import base64
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.llm.errors import LLMError
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.protocols.gemini import NO_SIGNATURE, Gemini
from holdfast.llm.providers.google import google_route
from holdfast.llm.request import (
    Generation,
    HttpOverlay,
    MediaPart,
    Message,
    ReasoningPart,
    Request,
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

PNG = base64.b64encode(b"\x89PNG").decode()
WEATHER = ToolDefinition(
    name="get_weather",
    description="Get current weather for a city.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def model(id: str = "gemini-2.5-flash", **changes: Any) -> Model:
    return Model(id, "google", google_route("secret-key"), **changes)


def body(request: Request, using: Model | None = None) -> Any:
    return decode_any(prepare(using or model(), request).body)


def contents(*messages: Message, using: Model | None = None) -> Any:
    return body(make_request(messages=messages), using)["contents"]


# -- requests ------------------------------------------------------------------------------------------------------


def test_gemini_is_posted_to_the_models_stream_with_the_key_in_a_header() -> None:
    """LLM-280"""
    request = http_request(prepare(model("gemini-2.5-flash"), make_request(prompt="hi")))
    assert request.url == (
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    )
    assert request.headers == {
        "content-type": "application/json",
        "x-goog-api-key": "secret-key",
        "accept": "text/event-stream",
    }


def test_a_query_of_the_request_follows_the_protocols_own() -> None:
    """LLM-280: `alt=sse` is not lost to an overlay."""
    overlay = HttpOverlay(query={"trace": "1"})
    assert http_request(prepare(model(), make_request(prompt="hi", http=overlay))).url.endswith("?alt=sse&trace=1")


def test_without_a_key_the_variable_is_named() -> None:
    """LLM-280"""
    keyless = Model("gemini-2.5-flash", "google", google_route(None))
    with pytest.raises(LLMError, match="GOOGLE_GENERATIVE_AI_API_KEY") as failed:
        http_request(prepare(keyless, make_request(prompt="hi")))
    assert (failed.value.reason, failed.value.kind) == ("Authentication", "missing")


def test_a_full_gemini_request_has_this_body() -> None:
    """LLM-281: system parts become one, controls go into generationConfig. LLM-288: penalties and seed as well."""
    request = make_request(
        system=["You are brief.", "", "You are kind."],
        prompt="hi",
        tools=[WEATHER],
        generation=Generation(
            max_tokens=100,
            temperature=0.5,
            top_p=0.9,
            top_k=40,
            frequency_penalty=0.1,
            presence_penalty=0.2,
            seed=7,
            stop=("END",),
        ),
        provider_options={"gemini": {"thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True}}},
        http=HttpOverlay(body={"safetySettings": []}),
    )
    assert body(request) == {
        "safetySettings": [],
        "generationConfig": {
            "maxOutputTokens": 100,
            "temperature": 0.5,
            "topP": 0.9,
            "topK": 40,
            "frequencyPenalty": 0.1,
            "presencePenalty": 0.2,
            "seed": 7,
            "stopSequences": ["END"],
            "thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True},
        },
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "get_weather",
                        "description": "Get current weather for a city.",
                        "parameters": {
                            "type": "object",
                            "properties": {"city": {"type": "string"}},
                            "required": ["city"],
                        },
                    }
                ]
            }
        ],
        "systemInstruction": {"parts": [{"text": "You are brief.\nYou are kind."}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }


def test_absent_fields_are_not_sent_to_gemini() -> None:
    """LLM-281: an empty generationConfig is left out."""
    assert body(make_request(prompt="hi")) == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_a_thinking_level_and_fields_of_tomorrow_pass_through() -> None:
    """LLM-288"""
    thinking = {"thinkingLevel": "high", "somethingNew": {"a": 1}, "unset": None}
    request = make_request(prompt="hi", provider_options={"gemini": {"thinkingConfig": thinking}})
    assert body(request)["generationConfig"] == {"thinkingConfig": {"thinkingLevel": "high", "somethingNew": {"a": 1}}}


def test_a_model_without_sampling_gets_none() -> None:
    plain = model(capabilities=Capabilities(sampling=False))
    controls = Generation(max_tokens=5, temperature=1.0, top_k=3, seed=1)
    assert body(make_request(prompt="hi", generation=controls), plain)["generationConfig"] == {
        "maxOutputTokens": 5,
        "seed": 1,
    }


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("required", {"mode": "ANY"}),
        ("get_weather", {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}),
    ],
)
def test_tool_choices_have_geminis_form(choice: str, config: dict[str, Any]) -> None:
    """LLM-282"""
    sent = body(make_request(prompt="hi", tools=[WEATHER], tool_choice=choice))
    assert sent["toolConfig"] == {"functionCallingConfig": config}


def test_no_choice_means_no_config_and_none_means_no_tools() -> None:
    """LLM-282, LLM-172"""
    assert "toolConfig" not in body(make_request(prompt="hi", tools=[WEATHER]))
    assert body(make_request(prompt="hi", tools=[WEATHER], tool_choice="none")) == body(make_request(prompt="hi"))


def test_a_tool_without_parameters_has_none() -> None:
    """LLM-169"""
    tool = ToolDefinition(name="now", description="The time.", input_schema={"type": "object", "properties": {}})
    assert body(make_request(prompt="hi", tools=[tool]))["tools"] == [
        {"functionDeclarations": [{"name": "now", "description": "The time."}]}
    ]


def test_an_answer_goes_back_as_it_came() -> None:
    """LLM-283, LLM-287: signatures return on the part that had them."""
    lowered = contents(
        user("hi"),
        assistant(
            ReasoningPart(text="thinking", provider_metadata={"google": {"thoughtSignature": "s1"}}),
            ReasoningPart(text="unsigned"),
            TextPart(text="answer", provider_metadata={"google": {"thoughtSignature": "s2"}}),
            ToolCallPart(
                id="c1",
                name="get_weather",
                input={"city": "Paris"},
                provider_metadata={"google": {"thoughtSignature": "s3"}},
            ),
            ToolCallPart(id="c2", name="get_weather", input={}),
        ),
    )
    assert lowered[1] == {
        "role": "model",
        "parts": [
            {"text": "thinking", "thought": True, "thoughtSignature": "s1"},
            {"text": "unsigned", "thought": True},
            {"text": "answer", "thoughtSignature": "s2"},
            {"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}, "thoughtSignature": "s3"},
            {"functionCall": {"name": "get_weather", "args": {}}},
        ],
    }


def test_metadata_of_another_provider_stays_here() -> None:
    """LLM-147"""
    foreign = {"anthropic": {"signature": "x"}, "openai": {"itemId": "y"}}
    lowered = contents(
        user("hi"),
        assistant(
            ReasoningPart(text="", provider_metadata=foreign),
            ReasoningPart(text="why", encrypted="x", provider_metadata=foreign),
            TextPart(text="so", provider_metadata=foreign),
        ),
    )
    assert lowered[1]["parts"] == [{"text": "why", "thought": True}, {"text": "so"}]


def test_a_signature_that_came_alone_goes_back_alone() -> None:
    """LLM-287"""
    lone = ReasoningPart(text="", provider_metadata={"google": {"thoughtSignature": "s"}})
    assert contents(user("hi"), assistant("so", lone))[1]["parts"] == [
        {"text": "so"},
        {"text": "", "thoughtSignature": "s"},
    ]


def test_results_are_strings_with_their_media_behind_them() -> None:
    """LLM-283, LLM-195"""
    picture = {"type": "file", "uri": f"data:image/png;base64,{PNG}", "mime": "image/png"}
    items = [{"type": "text", "text": "one"}, picture, {"type": "text", "text": "two"}]
    lowered = contents(
        user("hi"),
        assistant(*(ToolCallPart(id=id, name="look", input={}) for id in "abcd")),
        tool_result("a", "look", {"type": "content", "value": items}),
        tool_result("b", "look", {"deep": [1, "é"]}),
        tool_result("c", "look", {"type": "error", "value": {"code": 503}}),
        tool_result("d", "look", {"type": "text", "value": "plain"}),
    )

    def response(content: str) -> dict[str, Any]:
        return {"functionResponse": {"name": "look", "response": {"name": "look", "content": content}}}

    assert lowered[2:] == [
        {
            "role": "user",
            "parts": [
                response("one\ntwo"),
                {"inlineData": {"mimeType": "image/png", "data": PNG}},
                response('{"deep":[1,"é"]}'),
                response('{"code":503}'),
                response("plain"),
            ],
        }
    ]


def test_neighbours_of_one_role_are_one_content() -> None:
    """LLM-286: all results of a turn in one content, and so for everything else."""
    lowered = contents(
        user("one"),
        user("two"),
        assistant("a"),
        assistant(ToolCallPart(id="x", name="f", input={}), ToolCallPart(id="y", name="f", input={})),
        tool_result("x", "f", "1"),
        tool_result("y", "f", "2"),
        user("three"),
    )
    assert [(item["role"], len(item["parts"])) for item in lowered] == [("user", 2), ("model", 3), ("user", 3)]


def test_an_update_is_wrapped_user_text() -> None:
    """LLM-121, LLM-122"""
    assert contents(user("hi"), update("a < b"), assistant("ok"), update("more")) == [
        {"role": "user", "parts": [{"text": "hi"}, {"text": "<system-update>\na &lt; b\n</system-update>"}]},
        {"role": "model", "parts": [{"text": "ok"}]},
        {"role": "user", "parts": [{"text": "<system-update>\nmore\n</system-update>"}]},
    ]


def test_an_update_between_a_call_and_its_result_is_refused() -> None:
    """LLM-126"""
    with pytest.raises(LLMError, match="between a tool call and its result"):
        contents(user("hi"), assistant(ToolCallPart(id="x", name="f", input={})), update("now"))


def test_an_id_of_the_provider_returns_on_call_and_result() -> None:
    """LLM-285: and an id made here does not."""
    native = {"google": {"functionCallId": "native-1"}}
    lowered = contents(
        user("hi"),
        assistant(
            ToolCallPart(id="native-1", name="f", input={}, provider_metadata=native),
            ToolCallPart(id="call_made", name="f", input={}),
        ),
        tool_result("native-1", "f", "1"),
        tool_result("call_made", "f", "2"),
    )
    assert lowered[1]["parts"] == [
        {"functionCall": {"id": "native-1", "name": "f", "args": {}}},
        {"functionCall": {"name": "f", "args": {}}},
    ]
    assert [part["functionResponse"].get("id") for part in lowered[2]["parts"]] == ["native-1", None]


def test_a_call_whose_input_was_no_object_is_replayed_empty() -> None:
    """LLM-162, LLM-163"""
    lowered = contents(user("hi"), assistant(ToolCallPart(id="x", name="f", input=["no"])))
    assert lowered[1]["parts"] == [{"functionCall": {"name": "f", "args": {}}}]


def test_the_third_generation_gets_a_stand_in_for_a_missing_signature() -> None:
    """The first call of a turn needs one there; the calls beside it never have one."""
    signed = {"google": {"thoughtSignature": "s"}}
    history = (
        user("hi"),
        assistant(ToolCallPart(id="a", name="f", input={}), ToolCallPart(id="b", name="f", input={})),
        tool_result("a", "f", 1),
        tool_result("b", "f", 2),
        assistant(ToolCallPart(id="c", name="f", input={}, provider_metadata=signed)),
    )

    def signatures(id: str) -> list[str | None]:
        lowered = contents(*history, using=model(id))
        return [part.get("thoughtSignature") for item in lowered for part in item["parts"] if "functionCall" in part]

    assert signatures("gemini-3.1-pro-preview") == [NO_SIGNATURE, None, "s"]
    assert signatures("gemini-2.5-flash") == [None, None, "s"]


def test_hosted_items_of_another_provider_are_left_out() -> None:
    """LLM-141: history of another provider never makes a turn fail."""
    hosted = ToolCallPart(id="h", name="web_search", input={}, provider_executed=True)
    found = ToolResultPart(id="h", name="web_search", result=ToolResult(type="json", value=[]), provider_executed=True)
    assert contents(user("hi"), assistant(hosted, found, "so"), user("and"), assistant(hosted, found)) == [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"text": "so"}]},
        {"role": "user", "parts": [{"text": "and"}]},
    ]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("image/webp", "image/webp"),
        ("IMAGE/JPG", "image/jpeg"),
        ("video/mp4", "video/mp4"),
        ("video/webm", "video/webm"),
        ("video/quicktime", "video/quicktime"),
        *((f"audio/{kind}", f"audio/{kind}") for kind in ("wav", "mp3", "aiff", "aac", "ogg", "flac")),
        ("audio/mpeg", "audio/mp3"),
        ("application/pdf", "application/pdf"),
    ],
)
def test_media_is_sent_inline_to_gemini(given: str, sent: str) -> None:
    """LLM-190, LLM-193, LLM-198"""
    assert contents(user(MediaPart(media_type=given, data=PNG)))[0]["parts"] == [
        {"inlineData": {"mimeType": sent, "data": PNG}}
    ]


def test_a_text_file_becomes_text_under_its_name() -> None:
    """LLM-198"""
    part = MediaPart(media_type="text/plain", data="héllo".encode(), filename="notes.txt")
    assert contents(user(part))[0]["parts"] == [{"text": "[file: notes.txt]\nhéllo"}]


def test_media_that_gemini_does_not_take_is_named() -> None:
    """LLM-198, LLM-400: in a result as part of its text."""
    (part,) = contents(user(MediaPart(media_type="application/zip", data=b"PK")))[0]["parts"]
    assert part == {"text": "[application/zip was left out: Gemini requests cannot hold application/zip]"}
    remote = [{"type": "file", "uri": "https://example.org/a.png", "mime": "image/png", "name": "a.png"}]
    sent = contents(
        user("hi"),
        assistant(ToolCallPart(id="a", name="f", input={})),
        tool_result("a", "f", {"type": "content", "value": remote}),
    )
    (answer,) = sent[-1]["parts"]
    assert answer["functionResponse"]["response"]["content"].startswith("[a.png was left out: ")


def test_a_model_without_eyes_reads_that_an_image_was_left_out() -> None:
    """LLM-199"""
    blind = model(capabilities=Capabilities(images=False))
    (part,) = contents(user(MediaPart(media_type="image/png", data=PNG)), using=blind)[0]["parts"]
    assert "cannot see images" in part["text"]


def test_gemini_requests_hold_no_cache_markers() -> None:
    """LLM-211"""
    prepared = prepare(model(), make_request(system="s", prompt="hi"))
    assert Gemini().markers(prepared.draft, prepared.request) == (b"", 0)


# -- properties ----------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
SIGNED = st.sampled_from([None, {"google": {"thoughtSignature": "s"}}, {"anthropic": {"signature": "x"}}])
ANSWER_PARTS = st.one_of(
    st.builds(TextPart, text=TEXTS, provider_metadata=SIGNED),
    st.builds(ReasoningPart, text=TEXTS, provider_metadata=SIGNED),
)
INPUT_PARTS = st.one_of(
    st.builds(TextPart, text=TEXTS),
    st.just(MediaPart(media_type="image/png", data=PNG)),
    st.just(MediaPart(media_type="text/plain", data=b"file")),
)
RESULTS = st.sampled_from(
    [
        ToolResult(type="text", value="t"),
        ToolResult(type="json", value={"a": [1]}),
        ToolResult(type="error", value="no"),
        ToolResult(
            type="content",
            value=[
                {"type": "text", "text": "x"},
                {"type": "file", "uri": f"data:image/png;base64,{PNG}", "mime": "image/png"},
            ],
        ),
    ]
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Any order of roles that lowering accepts: turns without output, runs of one role, updates between turns."""
    messages = [user("first")]
    for turn in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["user", "update", "answer", "silence"]))
        if kind == "user":
            messages.append(user(*draw(st.lists(INPUT_PARTS, max_size=3))))
        elif kind == "update":
            messages.append(update(draw(TEXTS)))
        elif kind == "silence":
            messages.append(assistant(ReasoningPart(text=""), TextPart(text="")))
        else:
            native = draw(st.booleans())
            calls = [
                ToolCallPart(
                    id=f"{turn}-{index}",
                    name="f",
                    input={"n": index},
                    provider_metadata={"google": {"functionCallId": f"g{turn}-{index}"}} if native else None,
                )
                for index in range(draw(st.integers(0, 2)))
            ]
            messages.append(assistant(*draw(st.lists(ANSWER_PARTS, max_size=3)), *calls))
            messages += [
                Message(role="tool", content=(ToolResultPart(id=call.id, name="f", result=draw(RESULTS)),))
                for call in calls
            ]
    return messages


@settings(deadline=None, max_examples=120)
@given(conversations(), st.sampled_from(["gemini-2.5-flash", "gemini-3-pro"]))
def test_lowering_grows_by_appending(messages: list[Message], id: str) -> None:
    """LLM-219: batch or message by message, the same bytes; each request is the start of the next."""
    using = model(id)
    whole = prepare(using, make_request(system="s", messages=messages, tools=[WEATHER])).body
    grown = prepare(using, make_request(system="s", messages=messages[:1], tools=[WEATHER]))
    for message in messages[1:]:
        before = grown.body
        grown.extend([message])
        assert before.endswith(b"]}]}")
        assert grown.body.startswith(before[:-4])
    assert grown.body == whole
    roles = [item["role"] for item in decode_any(whole)["contents"]]
    assert all(one != other for one, other in itertools.pairwise(roles))
