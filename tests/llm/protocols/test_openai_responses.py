"""OpenAI Responses: what is sent, and recorded traffic both ways. Its events have their own file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.cassettes import either_cassettes
from tests.llm.lifecycle_checker import check_lifecycle

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.protocols.openai_responses import CLOSING, OpenAIResponses
from holdfast.llm.protocols.responses_stream import ResponsesDecoder
from holdfast.llm.providers.openai import openai_model
from holdfast.llm.request import (
    Generation,
    HttpOverlay,
    MediaPart,
    Message,
    Part,
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
from holdfast.llm.response import fold
from holdfast.llm.route.route import Route
from holdfast.llm.stream import prepare
from holdfast.schema.session_message import FileContent, TextContent
from holdfast.schema.sse import SSEFrames

PIXEL = "iVBORw0KGgo="
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
UNSTORED = {"openai": {"store": False}}
STORED = {"openai": {"store": True}}


def bare(id: str = "gpt-4.1-mini", **more: Any) -> Model:
    """A model without any defaults."""
    return Model(id, "openai", Route("openai-responses", OpenAIResponses(), "https://api.openai.com/v1"), **more)


def sent(request: Request, model: Model | None = None) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(prepare(model or bare(), request).body)
    return body


def items(*messages: Message, options: dict[str, Any] = UNSTORED, model: Model | None = None) -> list[Any]:
    found: list[Any] = sent(make_request(messages=messages, provider_options=options), model)["input"]
    return found


def thought(text: str, id: str | None, encrypted: str | None = None) -> ReasoningPart:
    native = {"openai": {"itemId": id, "reasoningEncryptedContent": encrypted}} if id else None
    return ReasoningPart(text=text, provider_metadata=native)


def said(text: str, phase: str | None = None) -> TextPart:
    return TextPart(text=text, provider_metadata={"openai": {"phase": phase}} if phase else None)


# -- the body ------------------------------------------------------------------------------------------------------


def test_a_full_responses_request_has_this_body() -> None:
    """LLM-260, LLM-261, LLM-216: every field that Responses has, in its place; what it does not have is not sent."""
    request = make_request(
        system=["Be brief.", "Be kind."],
        prompt="What is the weather in Paris?",
        tools=[WEATHER],
        tool_choice="get_weather",
        generation=Generation(
            max_tokens=80,
            temperature=0.5,
            top_p=0.9,
            top_k=4,
            frequency_penalty=0.1,
            presence_penalty=0.2,
            seed=7,
            stop=("END",),
        ),
        provider_options={
            "openai": {
                "instructions": "Answer in French.",
                "store": True,
                "serviceTier": "flex",
                "promptCacheKey": "ses_1",
                "include": ["reasoning.encrypted_content"],
                "reasoningEffort": "high",
                "reasoningSummary": "detailed",
                "textVerbosity": "low",
            }
        },
    )
    assert sent(request) == {
        "stream": True,
        "model": "gpt-4.1-mini",
        "instructions": "Answer in French.",
        "store": True,
        "service_tier": "flex",
        "prompt_cache_key": "ses_1",
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "detailed"},
        "text": {"verbosity": "low"},
        "max_output_tokens": 80,
        "temperature": 0.5,
        "top_p": 0.9,
        "tools": [
            {
                "type": "function",
                "name": "get_weather",
                "description": "Get current weather for a city.",
                "parameters": WEATHER.input_schema,
                "strict": False,
            }
        ],
        "tool_choice": {"type": "function", "name": "get_weather"},
        "input": [
            {"role": "system", "content": "Be brief.\nBe kind."},
            {"role": "user", "content": [{"type": "input_text", "text": "What is the weather in Paris?"}]},
        ],
    }


def test_json_output_is_requested_beside_the_verbosity() -> None:
    """LLM-377: the provider's own mode, beside the verbosity."""
    shape = {"type": "object", "properties": {"a": {"type": "integer"}}}
    request = make_request(
        prompt="hi",
        response_format={"type": "json", "name": "answer", "schema": shape},
        provider_options={"openai": {"textVerbosity": "low"}},
    )
    assert sent(request)["text"] == {
        "verbosity": "low",
        "format": {"type": "json_schema", "name": "answer", "schema": shape},
    }


def test_absent_fields_are_not_sent_to_responses() -> None:
    """LLM-260: a bare request names the model, asks for a stream and has its input, no more."""
    assert sent(make_request(prompt="hi")) == {
        "stream": True,
        "model": "gpt-4.1-mini",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
    }


def test_responses_are_requested_at_this_address() -> None:
    """LLM-260."""
    assert bare().route.url("gpt-5", None) == "https://api.openai.com/v1/responses"


@pytest.mark.parametrize("word", ["auto", "none", "required"])
def test_tool_choice_words_go_out_with_the_tools(word: str) -> None:
    """LLM-172: also for `none` the tools stay."""
    body = sent(make_request(prompt="hi", tools=[WEATHER], tool_choice=word))
    assert (body["tool_choice"], len(body["tools"])) == (word, 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"include": ["reasoning.encrypted_content", "made.up", 3]}, {"include": ["reasoning.encrypted_content"]}),
        ({"include": ["made.up"]}, {}),
        ({"include": []}, {}),
        ({"include": "reasoning.encrypted_content"}, {}),
        ({"serviceTier": "priority"}, {"service_tier": "priority"}),
        ({"serviceTier": "gold"}, {}),
        ({"textVerbosity": "high"}, {"text": {"verbosity": "high"}}),
        ({"textVerbosity": "loud"}, {}),
        ({"reasoningEffort": "extreme", "reasoningSummary": "auto"}, {"reasoning": {"summary": "auto"}}),
        ({"reasoningEffort": "low", "reasoningSummary": "novel"}, {"reasoning": {"effort": "low"}}),
        ({"store": "yes"}, {}),
        ({"promptCacheKey": 5, "instructions": ["x"]}, {}),
    ],
)
def test_unknown_words_in_options_are_dropped(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """LLM-047, LLM-265: an empty or all-unknown include is left out."""
    body = sent(make_request(prompt="hi", provider_options={"openai": given}))
    assert {key: value for key, value in body.items() if key not in ("stream", "model", "input")} == expected


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
def test_every_canonical_effort_is_sent(effort: str) -> None:
    """LLM-048: which of them a model takes is for the catalog to say."""
    request = make_request(prompt="hi", provider_options={"openai": {"reasoningEffort": effort}})
    assert sent(request)["reasoning"] == {"effort": effort}


def test_a_model_that_refuses_sampling_gets_none() -> None:
    request = make_request(prompt="hi", generation=Generation(temperature=0.0, top_p=1.0, max_tokens=5))
    body = sent(request, bare(capabilities=Capabilities(sampling=False)))
    assert (body.get("temperature"), body.get("top_p"), body["max_output_tokens"]) == (None, None, 5)


def test_the_overlay_decides_about_storage_too() -> None:
    """LLM-263, LLM-264: what is replayed follows the `store` that is really sent."""
    history = [user("hi"), assistant(thought("hm", "rs_1", "secret")), user("more")]
    request = make_request(messages=history, provider_options=STORED, http=HttpOverlay(body={"store": False}))
    body = sent(request)
    assert body["store"] is False
    assert body["input"][1] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "secret",
    }


def test_no_marker_is_ever_spliced_in() -> None:
    """LLM-211: caching is the provider's own here."""
    prepared = prepare(bare(), make_request(system="s", prompt="hi", tools=[WEATHER]))
    assert b"cache_control" not in prepared.body
    assert OpenAIResponses().markers(prepared.draft, prepared.request) == (b"", 0)


# -- history -------------------------------------------------------------------------------------------------------


def test_an_assistant_message_keeps_the_order_of_its_parts() -> None:
    """LLM-262, LLM-261: texts gather into one item until reasoning or a call comes."""
    message = assistant(
        "one",
        "two",
        thought("hm", "rs_1", "secret"),
        "three",
        ToolCallPart(id="call_1", name="get_weather", input={"city": "Zürich"}),
        "four",
    )
    assert items(user("hi"), message)[1:] == [
        {
            "role": "assistant",
            "content": [{"type": "output_text", "text": "one"}, {"type": "output_text", "text": "two"}],
        },
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "secret",
        },
        {"role": "assistant", "content": [{"type": "output_text", "text": "three"}]},
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Zürich"}'},
        {"role": "assistant", "content": [{"type": "output_text", "text": "four"}]},
    ]


def test_unstored_reasoning_is_put_together_again() -> None:
    """LLM-263: one item per id and without it, summaries in order, the last encrypted content; an empty summary is
    replayed as well; what was never encrypted, or has no item, is left out."""
    message = assistant(
        thought("a", "rs_1", "early"),
        thought("never encrypted", "rs_2"),
        thought("b", "rs_1", "late"),
        thought("c", "rs_1"),
        thought("", "rs_3", "silent"),
        thought("no item", None),
        "done",
    )
    assert items(user("hi"), message)[1:] == [
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text} for text in ("a", "b", "c")],
            "encrypted_content": "late",
        },
        {"type": "reasoning", "summary": [], "encrypted_content": "silent"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    ]


def test_reasoning_that_cannot_be_verified_is_not_sent() -> None:
    """LLM-142: of a failed turn only text and calls are left; never a native item without its encrypted content."""
    assert items(user("hi"), assistant(ReasoningPart(text="hm"), "partial"), user("again"))[1] == {
        "role": "assistant",
        "content": [{"type": "output_text", "text": "partial"}],
    }


def test_items_stored_by_the_provider_are_sent_as_references() -> None:
    """LLM-264: one reference per reasoning item and hosted result, none for the hosted call itself."""
    hosted = {"openai": {"itemId": "ws_1"}}
    message = assistant(
        thought("a", "rs_1"),
        thought("b", "rs_1"),
        ToolCallPart(id="ws_1", name="web_search", input={"query": "x"}, provider_executed=True),
        ToolResultPart(
            id="ws_1",
            name="web_search",
            result=ToolResult(type="json", value={}),
            provider_executed=True,
            provider_metadata=hosted,
        ),
        "found",
    )
    again = assistant(thought("a", "rs_1"))
    assert items(user("hi"), message, again, user("more"), options=STORED)[1:-1] == [
        {"type": "item_reference", "id": "rs_1"},
        {"type": "item_reference", "id": "ws_1"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "found"}]},
    ]


@pytest.mark.parametrize(
    ("result", "note"),
    [
        (ToolResult(type="json", value={"big": "x"}), "its result is not repeated here"),
        (ToolResult(type="error", value="no"), "it failed"),
    ],
)
def test_a_hosted_call_that_was_not_stored_leaves_a_note(result: ToolResult, note: str) -> None:
    """LLM-264: without storage the provider would not find the item, so history says in words that it was there."""
    message = assistant(
        ToolCallPart(id="ws_1", name="web_search", input={"query": "x"}, provider_executed=True),
        ToolResultPart(
            id="ws_1",
            name="web_search",
            result=result,
            provider_executed=True,
            provider_metadata={"openai": {"itemId": "ws_1"}},
        ),
    )
    text = f'[The provider\'s tool web_search was used with {{"query":"x"}}; {note}.]'
    assert items(user("hi"), message)[1:] == [{"role": "assistant", "content": [{"type": "output_text", "text": text}]}]


def test_a_call_has_its_own_id_only_where_it_is_stored() -> None:
    """LLM-272, LLM-162: and arguments that were no object go back as an empty one."""
    call = ToolCallPart(id="call_1", name="f", input={"a": 1}, provider_metadata={"openai": {"itemId": "fc_1"}})
    broken = ToolCallPart(id="call_2", name="f", input='{"a":')
    expected = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a":1}'}
    empty = {"type": "function_call", "call_id": "call_2", "name": "f", "arguments": "{}"}
    assert items(user("hi"), assistant(call, broken))[1:] == [expected, empty]
    assert items(user("hi"), assistant(call, broken), options=STORED)[1:] == [{**expected, "id": "fc_1"}, empty]


def test_the_phase_of_a_message_goes_back() -> None:
    """LLM-147: texts of different phases are different items; an unknown phase is not sent."""
    message = assistant(
        said("looking", "commentary"), said("still", "commentary"), said("42", "final_answer"), said("?", "odd")
    )
    assert items(user("hi"), message)[1:] == [
        {
            "role": "assistant",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "looking"}, {"type": "output_text", "text": "still"}],
        },
        {"role": "assistant", "phase": "final_answer", "content": [{"type": "output_text", "text": "42"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "?"}]},
    ]


def test_metadata_of_other_protocols_stays_at_home() -> None:
    """LLM-147: only the own namespace is read."""
    foreign = {"anthropic": {"itemId": "rs_9", "reasoningEncryptedContent": "x", "phase": "commentary"}}
    message = assistant(
        ReasoningPart(text="hm", provider_metadata=foreign), TextPart(text="hi", provider_metadata=foreign)
    )
    assert items(user("hi"), message)[1:] == [{"role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}]


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (ToolResult(type="text", value="22 °C"), "22 °C"),
        (ToolResult(type="json", value={"temperature": 22, "sky": "ü"}), '{"temperature":22,"sky":"ü"}'),
        (ToolResult(type="error", value={"error": "gone"}), '{"error":"gone"}'),
        (ToolResult(type="content", value=()), ""),
        (
            ToolResult(
                type="content",
                value=(
                    TextContent(text="read"),
                    TextContent(text=""),
                    FileContent(uri=f"data:image/png;base64,{PIXEL}", mime="image/png"),
                    FileContent(uri=f"data:application/pdf;base64,{PIXEL}", mime="application/pdf", name="a.pdf"),
                ),
            ),
            [
                {"type": "input_text", "text": "read"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
                {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PIXEL}"},
            ],
        ),
    ],
)
def test_a_tool_result_with_files_is_structured_and_any_other_a_string(value: ToolResult, output: Any) -> None:
    """LLM-261, LLM-164, LLM-165, LLM-195: a string, or structured content when there are files."""
    call = assistant(ToolCallPart(id="call_1", name="f", input={}))
    assert items(user("hi"), call, tool_result("call_1", "f", value))[2:] == [
        {"type": "function_call_output", "call_id": "call_1", "output": output}
    ]


def test_media_of_a_user_message() -> None:
    """LLM-193, LLM-198: images as data URLs, PDF as files, text files as text."""
    message = user(
        "look",
        MediaPart(media_type="image/png", data=PIXEL),
        MediaPart(media_type="application/pdf", data=b"%PDF"),
        MediaPart(media_type="text/plain", data=b"plain", filename="a.txt"),
    )
    assert items(message)[0]["content"] == [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
        {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        {"type": "input_text", "text": "[file: a.txt]\nplain"},
    ]


def test_a_blind_model_is_told_of_an_image() -> None:
    """LLM-199."""
    message = user(MediaPart(media_type="image/png", data=PIXEL))
    content = items(message, model=bare(capabilities=Capabilities(images=False)))[0]["content"]
    assert content == [{"type": "input_text", "text": "[an image was left out: this model cannot see images]"}]


@pytest.mark.parametrize(
    "message",
    [
        Message(role="user", content=(ToolCallPart(id="c", name="f", input={}),)),
        Message(role="tool", content=(TextPart(text="x"),)),
        Message(role="system", content=(MediaPart(media_type="image/png", data=PIXEL),)),
        assistant(MediaPart(media_type="image/png", data=PIXEL)),
    ],
)
def test_content_that_responses_cannot_hold_is_refused_before_sending(message: Message) -> None:
    """LLM-006, LLM-127: named by protocol and role, before any byte is sent."""
    with pytest.raises(LLMError, match=rf"OpenAI Responses: an? {message.role} message cannot hold") as caught:
        items(message)
    assert caught.value.reason == "InvalidRequest"


def test_media_that_cannot_be_sent_is_named() -> None:
    """LLM-400"""
    note = "[a.wav was left out: OpenAI Responses requests cannot hold audio/wav]"
    (item,) = items(user(MediaPart(media_type="audio/wav", data=PIXEL, filename="a.wav")))
    assert item["content"] == [{"type": "input_text", "text": note}]


def test_an_update_in_its_own_role() -> None:
    """LLM-128: OpenAI takes developer messages anywhere."""
    model = bare(capabilities=Capabilities(chronological_system="developer"))
    history = [update("first <b>"), user("hi"), update("second"), update("third")]
    assert items(*history, model=model) == [
        {"role": "developer", "content": "first <b>"},
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"role": "developer", "content": "second"},
        {"role": "developer", "content": "third"},
    ]


def test_an_update_without_a_role_is_wrapped_in_a_user_message() -> None:
    """LLM-121, LLM-122: wrapped, as one more text of the user message before it, else as a new one."""
    first, second = "<system-update>\na &lt; b\n</system-update>", "<system-update>\nc\n</system-update>"
    assert items(user("hi"), update("a < b"), assistant("ok"), update("c"))[:3] == [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "input_text", "text": first}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
        {"role": "user", "content": [{"type": "input_text", "text": second}]},
    ]


def test_an_update_between_a_call_and_its_result_is_refused() -> None:
    """LLM-126."""
    call = assistant(ToolCallPart(id="call_1", name="f", input={}))
    with pytest.raises(LLMError, match="between a tool call and its result"):
        items(user("hi"), call, update("news"), tool_result("call_1", "f", "x"))


@st.composite
def turns(draw: st.DrawFn) -> list[list[Message]]:
    """A conversation in batches: each ends where the model is asked. A turn may have left nothing."""
    conversation: list[list[Message]] = []
    text = st.text(alphabet='ab"\\\n<ü😀', min_size=1, max_size=6)
    for number in range(draw(st.integers(1, 5))):
        batch: list[Message] = []
        if number and draw(st.booleans()):
            parts: list[Part] = []
            for index in range(draw(st.integers(0, 4))):
                kind = draw(st.sampled_from(["text", "phase", "thought", "call"]))
                id = f"{number}_{index}"
                if kind == "text":
                    parts.append(said(draw(text)))
                elif kind == "phase":
                    parts.append(said(draw(text), draw(st.sampled_from(["commentary", "final_answer"]))))
                elif kind == "thought":
                    parts.append(thought(draw(text), f"rs_{number}", draw(st.none() | text)))
                else:
                    parts.append(ToolCallPart(id=f"call_{id}", name="f", input={"a": draw(text)}))
            batch.append(Message(role="assistant", content=tuple(parts)))
            batch += [tool_result(part.id, "f", draw(text)) for part in parts if isinstance(part, ToolCallPart)]
        if draw(st.booleans()):
            batch.append(update(draw(text)))
        batch.append(user(draw(text)))
        if draw(st.booleans()):
            batch.append(update(draw(text)))
        conversation.append(batch)
    return conversation


@settings(max_examples=80, deadline=None)
@given(turns(), st.booleans(), st.booleans())
def test_each_request_body_begins_with_the_one_before(
    conversation: list[list[Message]], stored: bool, native: bool
) -> None:
    """LLM-219: batch by batch gives the bytes of all at once, and each request begins with the one before it, up to
    the brackets that close its last item."""
    model = bare(capabilities=Capabilities(chronological_system="developer" if native else None))
    options = STORED if stored else UNSTORED
    grown = prepare(model, make_request(system="s", messages=conversation[0], provider_options=options))
    so_far, previous = list(conversation[0]), grown.body
    for batch in conversation[1:]:
        for message in batch:
            grown.extend([message])
        so_far += batch
        at_once = prepare(model, make_request(system="s", messages=so_far, provider_options=options)).body
        assert grown.body == at_once
        assert json.loads(at_once)
        assert at_once.startswith(previous.removesuffix(CLOSING).removesuffix(b"}").removesuffix(b"]"))
        previous = at_once


# -- cassettes ----------------------------------------------------------------------------------------------------


def interactions(cassette: Path) -> list[Any]:
    found: list[Any] = json.loads(cassette.read_text(encoding="utf-8"))["interactions"]
    return found


def replay(interaction: Any, size: int | None = None, *, stored: bool = False) -> list[ev.Event]:
    data = interaction["response"]["body"].encode()
    frames, decoder = SSEFrames(2**24), ResponsesDecoder(stored=stored)
    events: list[ev.Event] = []
    for start in range(0, len(data), size or len(data)):
        for each in frames.feed(data[start : start + (size or len(data))]):
            events += decoder.feed(each)
    events += decoder.finish()
    check_lifecycle(events)
    return events


def finished_item(interaction: Any, kind: str) -> dict[str, Any]:
    """The one item of this kind as the stream ended it."""
    lines = interaction["response"]["body"].split("\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    ended = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    (found,) = [item for item in ended if item["type"] == kind]
    item: dict[str, Any] = found
    return item


LOOP = "openai-responses/gpt-5-5-drives-a-tool-loop.json"
TEXT = "openai-responses/gpt-5-5-streams-text.json"
IMAGE = "openai-responses/openai-responses-gpt-5-5-image-tool-result.json"
REASONING = "openai-responses/openai-responses-gpt-5-5-reasoning.json"
CACHE = "openai-responses-cache/reports-cached-tokens-on-identical-second-call.json"


@either_cassettes
@pytest.mark.parametrize("path", [LOOP, TEXT, IMAGE, REASONING, CACHE])
@pytest.mark.parametrize("stored", [True, False])
def test_answers_are_the_same_in_any_pieces(cassettes: Path, path: str, stored: bool) -> None:
    """LLM-072."""
    for interaction in interactions(cassettes / path):
        whole = replay(interaction, stored=stored)
        assert replay(interaction, 7, stored=stored) == replay(interaction, 1, stored=stored) == whole


@either_cassettes
def test_the_second_request_of_a_tool_loop_follows_from_the_first_answer(cassettes: Path) -> None:
    """LLM-260, LLM-266: both requests as they are kept, the second from what the first answered."""
    first, second = interactions(cassettes / LOOP)
    asked = make_request(
        system="Use the get_weather tool, then answer in one short sentence.",
        prompt="What is the weather in Paris?",
        tools=[WEATHER],
        generation=Generation(max_tokens=80),
    )
    prepared = prepare(bare("gpt-5.5"), asked)
    assert json.loads(prepared.body) == json.loads(first["request"]["body"])
    answer = fold(replay(first))
    (call,) = answer.calls
    assert (answer.reason, call.name, call.input) == ("tool-calls", "get_weather", {"city": "Paris"})
    # It replays the call without its own id, as a history without metadata does.
    plain = ToolCallPart(id=call.id, name=call.name, input=call.input)
    result = tool_result(call.id, call.name, {"temperature": 22, "condition": "sunny"})
    prepared.extend([assistant(plain), result])
    assert json.loads(prepared.body) == json.loads(second["request"]["body"])
    assert (fold(replay(second)).text, fold(replay(second)).reason) == ("It’s sunny and 22°C in Paris.", "stop")


@either_cassettes
def test_reasoning_without_a_summary_keeps_its_item(cassettes: Path) -> None:
    """LLM-267: reasoning without a summary is an empty block that keeps its item."""
    (only,) = interactions(cassettes / TEXT)
    request = make_request(
        system="You are concise.", prompt="Reply with exactly: Hello!", generation=Generation(max_tokens=80)
    )
    assert sent(request, bare("gpt-5.5")) == json.loads(only["request"]["body"])
    reasoning, text = fold(replay(only)).parts
    assert reasoning == thought("", finished_item(only, "reasoning")["id"])
    assert text == said("Hello!", "final_answer")


@either_cassettes
def test_reasoning_keeps_the_encrypted_content_of_its_end(cassettes: Path) -> None:
    """LLM-045, LLM-267: the defaults of the model, and the encrypted content of the item's end."""
    (only,) = interactions(cassettes / REASONING)
    request = make_request(
        system="Show concise reasoning when the provider supports visible reasoning summaries.",
        prompt="Think briefly, then reply exactly with: Hello!",
        generation=Generation(max_tokens=120),
        provider_options={"openai": {"reasoningEffort": "low"}},
    )
    assert sent(request, openai_model("gpt-5.5", "k")) == json.loads(only["request"]["body"])
    response = fold(replay(only))
    reasoning = response.parts[0]
    assert isinstance(reasoning, ReasoningPart)
    assert reasoning.provider_metadata is not None
    assert (
        reasoning.provider_metadata["openai"]["reasoningEncryptedContent"]
        == finished_item(only, "reasoning")["encrypted_content"]
    )
    assert (response.text, response.usage and response.usage.reasoning) == ("Hello!", 13)


@either_cassettes
def test_an_image_as_tool_result_is_encoded_alike(cassettes: Path) -> None:
    """LLM-195, LLM-045."""
    (only,) = interactions(cassettes / IMAGE)
    body = json.loads(only["request"]["body"])
    image = body["input"][3]["output"][1]["image_url"]
    screenshot = ToolDefinition(
        name="read_screenshot",
        description="Capture a screenshot of the current screen.",
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
    )
    value = (TextContent(text="Image read successfully"), FileContent(uri=image, mime="image/png"))
    request = make_request(
        system=body["input"][0]["content"],
        messages=[
            user("Use the read_screenshot tool, then reply with the words shown."),
            assistant(ToolCallPart(id="call_screenshot_1", name="read_screenshot", input={})),
            tool_result("call_screenshot_1", "read_screenshot", ToolResult(type="content", value=value)),
        ],
        tools=[screenshot],
        generation=Generation(max_tokens=40),
    )
    assert sent(request, openai_model("gpt-5.5", "k")) == body
    assert fold(replay(only)).text == finished_item(only, "message")["content"][0]["text"]


@either_cassettes
def test_a_cache_hit_is_counted(cassettes: Path) -> None:
    """LLM-216, LLM-046, LLM-083."""
    first, second = interactions(cassettes / CACHE)
    body = json.loads(first["request"]["body"])
    request = make_request(
        system=body["input"][0]["content"],
        prompt="Say hi.",
        generation=Generation(max_tokens=16, temperature=0),
        provider_options={"openai": {"promptCacheKey": "recorded-cache-test"}},
    )
    assert sent(request, openai_model("gpt-4.1-mini", "k")) == body
    seen = [fold(replay(each)).usage for each in (first, second)]
    assert [usage and (usage.cache_read, usage.non_cached) for usage in seen] == [(0, 4765), (4608, 157)]
