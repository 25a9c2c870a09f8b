"""The provider-neutral request: plain values, convenient to make, complete after a trip through JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from tests.llm.support import KEY, PNG, WEATHER, body, chat_model, claude, conversations, lowered

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.model import Model
from holdfast.llm.request import (
    CacheHint,
    CachePolicy,
    Generation,
    HttpOverlay,
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    Request,
    SystemPart,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolDefinition,
    ToolResult,
    ToolResultPart,
    as_result,
    assistant,
    choice,
    make_request,
    project_output,
    result_items,
    tool_result,
    update,
    user,
)
from holdfast.llm.stream import prepare
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.session_message import FileContent, TextContent

MODELS = [chat_model(), claude()]
EVERY = [pytest.param(model, id=model.provider) for model in MODELS]


def again(value: Any, kind: Any) -> Any:
    return msgspec.json.Decoder(kind).decode(encode(value))


# -- plain values ----------------------------------------------------------------------------------------------------


def full_request() -> Request:
    return Request(
        id="req_1",
        system=(SystemPart(text="rules", cache=CacheHint(ttl_seconds=3600)), SystemPart(text="more")),
        messages=(
            user(TextPart(text="hi", cache=CacheHint()), MediaPart(media_type="image/png", data=PNG, filename="a.png")),
            assistant(
                ReasoningPart(text="hm", encrypted="e", provider_metadata={"anthropic": {"signature": "s"}}),
                TextPart(text="yes", metadata={"note": 1}),
                ToolCallPart(id="c", name="f", input={"a": [1, None, "é"]}, provider_metadata={"openai": {"x": 1}}),
                ToolCallPart(id="h", name="web_search", input={}, provider_executed=True),
                ToolResultPart(
                    id="h", name="web_search", result=ToolResult(type="json", value=[1]), provider_executed=True
                ),
            ),
            tool_result("c", "f", {"type": "content", "value": [{"type": "text", "text": "t"}]}),
            update("new rules"),
        ),
        tools=(
            ToolDefinition(
                name="f",
                description="d",
                input_schema={"type": "object"},
                output_schema={"type": "string"},
                cache=CacheHint(type="persistent"),
            ),
        ),
        tool_choice=ToolChoice(type="tool", name="f"),
        generation=Generation(max_tokens=1, temperature=0.5, top_p=0.1, top_k=3, seed=7, stop=("x",)),
        provider_options={"openai": {"store": False}},
        http=HttpOverlay(body={"a": None}, headers={"x": "y"}, query={"q": "1"}),
        response_format={"type": "json"},
        cache=CachePolicy(tools=False, messages=1, ttl_seconds=60),
        metadata={"trace": "t"},
    )


def test_a_request_with_everything_survives_json() -> None:
    """LLM-007, LLM-020, LLM-023, LLM-028: every field and every kind of part, both ways."""
    request = full_request()
    assert again(request, Request) == request
    assert set(request.__struct_fields__) == {
        *("id", "system", "messages", "tools", "tool_choice", "generation", "provider_options", "http"),
        *("response_format", "cache", "metadata"),
    }


@given(conversations())
@settings(max_examples=50, deadline=None)
def test_messages_survive_a_round_trip_through_json(additions: list[list[Message]]) -> None:
    """LLM-007"""
    for added in additions:
        for message in added:
            assert again(message, Message) == message


def test_bytes_survive_as_their_base64() -> None:
    """LLM-007, LLM-023: JSON has no bytes; the part is the same afterwards and so is what is sent."""
    part = MediaPart(media_type="image/png", data=b"\x89PNG\r\n\x1a\n")
    assert again(user(part), Message) == user(part) == user(MediaPart(media_type="image/png", data=PNG))


EVENTS: list[ev.Event] = [
    ev.StepStart(),
    ev.TextStart("t"),
    ev.TextDelta("t", "é"),
    ev.TextEnd("t", {"anthropic": {"citations": [1]}}),
    ev.ReasoningStart("r", {"openai": {"itemId": "i"}}),
    ev.ReasoningDelta("r", "x"),
    ev.ReasoningEnd("r", {"anthropic": {"signature": "s"}}),
    ev.ToolInputStart("c", "f"),
    ev.ToolInputDelta("c", "f", "{}"),
    ev.ToolInputEnd("c", "f"),
    ev.ToolCall("c", "f", {"a": 1}, metadata={"google": {"thoughtSignature": "s"}}),
    ev.ToolCall("c", "f", {}, invalid="why", raw="{"),
    ev.ToolResultEvent("c", "f", ToolResult(type="json", value={"a": 1}), metadata={"anthropic": {"blockType": "b"}}),
    ev.StepFinish("stop", ev.Usage(input=1, metadata={"openai": {"raw": 1}})),
    ev.Finish("stop", ev.Usage(input=1), {"openai": {"finishReason": "stop"}}),
    ev.ProviderError("m", reason="RateLimit", retryable=True, retry_after_ms=5, code="c", usage=ev.Usage(output=2)),
]


def test_every_event_survives_json() -> None:
    """LLM-007, LLM-060: the vocabulary, each event under its own name."""
    assert [again(event, ev.Event) for event in EVENTS] == EVENTS
    assert {decode_any(encode(event))["type"] for event in EVENTS} == {
        *("step-start", "text-start", "text-delta", "text-end", "reasoning-start", "reasoning-delta", "reasoning-end"),
        *("tool-input-start", "tool-input-delta", "tool-input-end", "tool-call", "tool-result", "step-finish"),
        *("finish", "provider-error"),
    }


def test_events_have_the_wire_names_of_their_fields() -> None:
    """LLM-060"""
    call = ev.ToolCall("c", "f", {"a": 1}, provider_executed=True, metadata={"anthropic": {}})
    assert decode_any(encode(call)) == {
        "type": "tool-call",
        "id": "c",
        "name": "f",
        "input": {"a": 1},
        "providerExecuted": True,
        "providerMetadata": {"anthropic": {}},
    }
    assert decode_any(encode(ev.Finish("stop", ev.Usage(input=3, cache_read=1)))) == {
        "type": "finish",
        "reason": "stop",
        "usage": {"inputTokens": 3, "cacheReadInputTokens": 1},
    }


# -- convenience -----------------------------------------------------------------------------------------------------


def test_strings_become_parts_and_the_prompt_comes_last() -> None:
    """LLM-021"""
    request = make_request(system="be brief", messages=[assistant("before")], prompt="now")
    assert request == Request(
        system=(SystemPart(text="be brief"),),
        messages=(
            Message(role="assistant", content=(TextPart(text="before"),)),
            Message(role="user", content=(TextPart(text="now"),)),
        ),
        tools=(),
    )


@pytest.mark.parametrize("word", ["auto", "none", "required"])
def test_three_words_are_reserved_for_a_choice(word: str) -> None:
    """LLM-029"""
    assert make_request(prompt="x", tool_choice=word).tool_choice == ToolChoice(type=word)  # type: ignore[arg-type]


def test_another_word_is_the_tool_of_that_name() -> None:
    """LLM-029"""
    assert choice("get_weather") == ToolChoice(type="tool", name="get_weather")


@pytest.mark.parametrize("model", EVERY)
def test_a_choice_without_a_name_is_refused(model: Model) -> None:
    """LLM-029"""
    with pytest.raises(LLMError) as caught:
        prepare(model, make_request(prompt="x", tools=[WEATHER], tool_choice=ToolChoice(type="tool")))
    assert (caught.value.reason, caught.value.parameter) == ("InvalidRequest", "toolChoice")


@pytest.mark.parametrize("value", [5, "text", None, [1], {"a": 1}, {"type": "text"}, {"type": "other", "value": 1}])
def test_a_bare_value_is_a_json_result(value: Any) -> None:
    """LLM-025"""
    assert as_result(value) == ToolResult(type="json", value=value)


@pytest.mark.parametrize("kind", ["text", "json", "error", "content"])
def test_what_has_the_shape_of_a_result_passes_through(kind: Any) -> None:
    """LLM-025"""
    result = ToolResult(type=kind, value=["v"])
    assert as_result(result) is result
    assert as_result({"type": kind, "value": ["v"]}) == result


def test_an_output_is_shown_as_its_json_its_one_text_or_its_items() -> None:
    """LLM-026"""
    text, other = TextContent(text="a"), TextContent(text="b")
    file = FileContent(uri="data:image/png;base64,AA==", mime="image/png")
    assert project_output({"n": 1}, ()) == ToolResult(type="json", value={"n": 1})
    assert project_output({"n": 1}, (text,)) == ToolResult(type="text", value="a")
    assert project_output({"n": 1}, (file,)) == ToolResult(type="content", value=(file,))
    assert project_output({"n": 1}, (text, other)) == ToolResult(type="content", value=(text, other))


def test_items_are_the_same_after_json() -> None:
    """LLM-025: text and file items."""
    items = (TextContent(text="a"), FileContent(uri="u", mime="image/png", name="n"))
    result = ToolResult(type="content", value=items)
    assert result_items(result) == result_items(again(result, ToolResult)) == list(items)


# -- what belongs where ----------------------------------------------------------------------------------------------

PARTS: dict[str, Any] = {
    "text": TextPart(text="t"),
    "media": MediaPart(media_type="image/png", data=PNG),
    "reasoning": ReasoningPart(text="r", provider_metadata={"anthropic": {"signature": "s"}}),
    "tool-call": ToolCallPart(id="c", name="f", input={}),
    "tool-result": ToolResultPart(id="c", name="f", result=ToolResult(type="text", value="v")),
}
ALLOWED: dict[str, set[str]] = {
    "system": {"text"},
    "user": {"text", "media"},
    "assistant": {"text", "reasoning", "tool-call"},
    "tool": {"tool-result"},
}


@pytest.mark.parametrize("model", EVERY)
@pytest.mark.parametrize("role", list(ALLOWED))
@pytest.mark.parametrize("kind", list(PARTS))
def test_a_role_takes_its_kinds_and_refuses_the_others(model: Model, role: Any, kind: str) -> None:
    """LLM-006, LLM-022, LLM-024, LLM-127: refused before sending, by name of protocol, role and what would do."""
    request = make_request(messages=[user("hi"), Message(role=role, content=(PARTS[kind],))])
    if kind in ALLOWED[role]:
        assert prepare(model, request).body
        return
    with pytest.raises(LLMError) as caught:
        prepare(model, request)
    assert caught.value.reason == "InvalidRequest"
    if (role, kind) != ("assistant", "tool-result"):
        for word in (model.route.protocol.name, role, *ALLOWED[role]):
            assert word in caught.value.message


def test_hosted_results_belong_to_the_assistant() -> None:
    """LLM-024"""
    hosted = ToolResultPart(id="h", name="web_search", result=ToolResult(type="json", value=[]), provider_executed=True)
    assert lowered(claude(), user("hi"), assistant(hosted))[1]["content"] == [
        {"type": "web_search_tool_result", "tool_use_id": "h", "content": []}
    ]


@pytest.mark.parametrize("model", EVERY)
def test_own_metadata_never_reaches_the_wire(model: Model) -> None:
    """LLM-023"""
    note = {"note": "never-sent"}
    request = make_request(
        messages=[
            Message(role="user", content=(TextPart(text="a", metadata=note),), metadata=note),
            assistant(ReasoningPart(text="r", metadata=note), ToolCallPart(id="c", name="f", input={}, metadata=note)),
            Message(
                role="tool",
                content=(ToolResultPart(id="c", name="f", result=ToolResult(type="text", value="v"), metadata=note),),
            ),
            user(MediaPart(media_type="image/png", data=PNG, metadata=note)),
        ],
        metadata=note,
    )
    assert b"never-sent" not in prepare(model, request).body


@pytest.mark.parametrize("model", EVERY)
def test_metadata_of_another_namespace_never_reaches_the_wire(model: Model) -> None:
    """LLM-027, LLM-147"""
    other = {"google": {"thoughtSignature": "never-sent"}, "bedrock": {"signature": "never-sent"}}
    parts: list[Part] = [
        ReasoningPart(text="r", provider_metadata=other),
        TextPart(text="t", provider_metadata=other),
        ToolCallPart(id="c", name="f", input={}, provider_metadata=other),
    ]
    request = make_request(messages=[user("a"), assistant(*parts), tool_result("c", "f", 1)])
    assert b"never-sent" not in prepare(model, request).body


@pytest.mark.parametrize("model", EVERY)
def test_empty_texts_and_messages_are_left_out(model: Model) -> None:
    """LLM-033, LLM-143"""
    plain = lowered(model, user("a"), assistant("b"), user("c"))
    padded = lowered(
        model,
        user(""),
        user("a", ""),
        update(""),
        assistant("", "b", ReasoningPart(text="")),
        assistant(ReasoningPart(text="", provider_metadata={})),
        user(""),
        user("", "c"),
    )
    assert padded == plain


@pytest.mark.parametrize("model", EVERY)
@pytest.mark.parametrize("messages", [[], [user("")], [assistant("", ReasoningPart(text=""))]])
def test_a_request_needs_a_message(model: Model, messages: list[Message]) -> None:
    """LLM-033: system text alone is not one, also where it is lowered as one."""
    for system in ("", "be brief"):
        with pytest.raises(LLMError) as caught:
            _ = prepare(model, make_request(system=system, messages=messages)).body
        assert caught.value.reason == "InvalidRequest"


def test_the_three_domains_stay_apart() -> None:
    """LLM-030: a control is not an option and an option is not a raw field."""
    sent = body(
        chat_model(),
        make_request(
            prompt="x",
            generation=Generation(max_tokens=5),
            provider_options={"openai": {"max_tokens": 7, "temperature": 1, "service_tier": "flex"}},
            http=HttpOverlay(body={"custom": 1}),
        ),
    )
    assert (sent["max_tokens"], sent["custom"]) == (5, 1)
    assert "temperature" not in sent
    assert "service_tier" not in sent


@pytest.mark.parametrize("model", EVERY)
def test_preparing_reads_no_credential_and_sends_nothing(model: Model) -> None:
    """LLM-004, LLM-002: a compiled request says where it would go; the key is not in it."""
    prepared = prepare(model, make_request(prompt="x"))
    assert prepared.model.route == model.route
    assert KEY.encode() not in prepared.body
    assert decode_any(prepared.body)["model"] == model.id
