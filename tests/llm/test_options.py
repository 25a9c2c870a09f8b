"""Defaults of the route, of the model and of the request become one; what an overlay may not say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.llm.support import KEY, WEATHER, body, chat_model, claude

from holdfast.llm.errors import LLMError
from holdfast.llm.model import EFFORTS, OWNED_FIELDS, Model, deep_merge, resolve
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.request import Generation, HttpOverlay, Request, make_request, user
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.route import Route
from holdfast.llm.stream import http_request, prepare

OWNED = [
    "content",
    "contents",
    "frequencyPenalty",
    "frequency_penalty",
    "generationConfig",
    "inferenceConfig",
    "input",
    "maxTokens",
    "max_tokens",
    "messages",
    "model",
    "presencePenalty",
    "presence_penalty",
    "responseFormat",
    "response_format",
    "seed",
    "stop",
    "stopSequences",
    "stop_sequences",
    "stream",
    "streamOptions",
    "stream_options",
    "system",
    "systemInstruction",
    "system_instruction",
    "temperature",
    "thinking",
    "toolChoice",
    "toolConfig",
    "tool_choice",
    "tool_config",
    "tools",
    "topK",
    "topP",
    "top_k",
    "top_p",
]


def layered(route: dict[str, Any], model: dict[str, Any]) -> Model:
    return Model("m", "openai", Route("r", OpenAIChat(), "https://h/v1", KeyAuth(KEY), **route), **model)


# -- precedence ------------------------------------------------------------------------------------------------------


def test_the_last_defined_control_wins_field_by_field() -> None:
    """LLM-040, LLM-030: `stop` is replaced whole; what is not defined never overrides."""
    model = layered(
        {"generation": Generation(temperature=0.1, top_p=0.1, seed=1, stop=("a", "b"))},
        {"generation": Generation(temperature=0.2, top_p=0.2, max_tokens=2)},
    )
    request = make_request(prompt="x", generation=Generation(temperature=0.0, stop=("c",)))
    assert resolve(model, request).generation == Generation(
        temperature=0.0, top_p=0.2, max_tokens=2, seed=1, stop=("c",)
    )


def test_options_and_raw_fields_merge_deeply_and_lists_replace() -> None:
    """LLM-040"""
    model = layered(
        {
            "provider_options": {"openai": {"a": {"x": 1, "y": [1, 2]}, "b": 1}, "other": {"k": 1}},
            "http": HttpOverlay(body={"n": {"x": 1, "y": 1}, "keep": 1}),
        },
        {
            "provider_options": {"openai": {"a": {"y": [3]}}},
            "http": HttpOverlay(body={"n": {"y": {"z": 1}}}),
        },
    )
    resolved = resolve(
        model,
        make_request(
            prompt="x",
            provider_options={"openai": {"b": None}},
            http=HttpOverlay(body={"n": {"x": None}}),
        ),
    )
    assert resolved.provider_options == {"openai": {"a": {"x": 1, "y": [3]}, "b": None}, "other": {"k": 1}}
    assert resolved.http is not None
    assert resolved.http.body == {"n": {"x": None, "y": {"z": 1}}, "keep": 1}


def test_headers_and_query_merge_by_name() -> None:
    """LLM-040"""
    model = layered(
        {"http": HttpOverlay(headers={"a": "1", "b": "1"}, query={"q": "1"})},
        {"http": HttpOverlay(headers={"b": "2"}, query={"q": "2", "r": "2"})},
    )
    resolved = resolve(model, make_request(prompt="x", http=HttpOverlay(headers={"c": "3"}))).http
    assert resolved is not None
    assert (resolved.headers, resolved.query) == ({"a": "1", "b": "2", "c": "3"}, {"q": "2", "r": "2"})


JSON = st.recursive(
    st.none() | st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(OBJECTS, OBJECTS, OBJECTS)
def test_merging_takes_the_last_word_of_every_leaf(one: dict[str, Any], two: dict[str, Any], three: Any) -> None:
    """LLM-040"""
    merged = deep_merge(one, two, three)
    assert merged == deep_merge(deep_merge(one, two), three)
    for key, value in three.items():
        if not isinstance(value, dict):
            assert merged[key] == value
    assert set(merged) == {*one, *two, *three}


def test_null_in_an_overlay_is_sent_as_null() -> None:
    """LLM-042"""
    request = make_request(prompt="x", http=HttpOverlay(body={"logprobs": None}))
    assert body(chat_model(), request)["logprobs"] is None
    assert b'"logprobs":null' in prepare(claude(), request).body


# -- the output limit ------------------------------------------------------------------------------------------------


def limited(request: int | None, model: int | None, route: int | None) -> tuple[Model, Request]:
    base = claude(output_limit=model)
    generation = Generation(max_tokens=request) if request else None
    return base.replace(route=base.route.replace(output_limit=route)), make_request(prompt="x", generation=generation)


@pytest.mark.parametrize(
    ("request_limit", "model_limit", "route_limit", "sent"),
    [(1, 2, 3, 1), (None, 2, 3, 2), (None, None, 3, 3), (None, None, None, 4096)],
)
def test_a_protocol_that_needs_a_limit_takes_the_nearest(
    request_limit: int | None, model_limit: int | None, route_limit: int | None, sent: int
) -> None:
    """LLM-041, LLM-221"""
    assert body(*limited(request_limit, model_limit, route_limit))["max_tokens"] == sent


def test_a_protocol_that_needs_none_sends_only_what_was_asked() -> None:
    """LLM-041, LLM-241: a model's own limit is not a wish."""
    model = chat_model(output_limit=9)
    model = model.replace(route=model.route.replace(output_limit=8))
    assert "max_tokens" not in body(model, make_request(prompt="x"))
    assert body(model, make_request(prompt="x", generation=Generation(max_tokens=5)))["max_tokens"] == 5


# -- the overlay -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [chat_model(), claude()], ids=["chat", "claude"])
def test_no_words_to_stop_at_are_not_a_list_of_them(model: Model) -> None:
    """LLM-221, LLM-241: an empty list is refused."""
    request = make_request(prompt="x", generation=Generation(stop=()))
    assert not {"stop", "stop_sequences"} & set(body(model, request))


def test_the_owned_fields_are_those_of_the_rule() -> None:
    """LLM-031"""
    assert set(OWNED) == OWNED_FIELDS


@pytest.mark.parametrize("field", OWNED)
@pytest.mark.parametrize("model", [chat_model(), claude()], ids=["chat", "claude"])
def test_an_overlay_may_not_set_what_a_protocol_makes(model: Model, field: str) -> None:
    """LLM-031"""
    with pytest.raises(LLMError) as caught:
        prepare(model, make_request(prompt="x", http=HttpOverlay(body={field: 1, "fine": 1})))
    assert caught.value.reason == "InvalidRequest"
    assert field in caught.value.message
    assert "fine" not in caught.value.message


def test_all_refused_fields_are_listed_and_defaults_count_too() -> None:
    """LLM-031"""
    model = layered({"http": HttpOverlay(body={"stop": "x"})}, {"http": HttpOverlay(body={"tools": []})})
    with pytest.raises(LLMError, match=r"seed, stop, tools"):
        prepare(model, make_request(prompt="x", http=HttpOverlay(body={"seed": 1})))


def test_thinking_and_effort_of_a_variant_have_a_place_that_is_not_the_overlay() -> None:
    """LLM-032: the options domain takes what the overlay refuses."""
    thinking = {"type": "enabled", "budgetTokens": 1024}
    sent = body(claude(), make_request(prompt="x", provider_options={"anthropic": {"thinking": thinking}}))
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    sent = body(chat_model(), make_request(prompt="x", provider_options={"openai": {"reasoningEffort": "low"}}))
    assert sent["reasoning_effort"] == "low"


def test_the_overlay_has_the_last_word_over_options() -> None:
    """LLM-005: it is applied after lowering."""
    request = make_request(
        prompt="x", provider_options={"openai": {"store": False}}, http=HttpOverlay(body={"store": True, "extra": [1]})
    )
    sent = body(chat_model(), request)
    assert (sent["store"], sent["extra"]) == (True, [1])


# -- option words ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", EFFORTS)
def test_every_canonical_effort_reaches_chat(word: str) -> None:
    """LLM-048: whether a model takes it is for the catalog to know."""
    assert EFFORTS == ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    sent = body(chat_model(), make_request(prompt="x", provider_options={"openai": {"reasoningEffort": word}}))
    assert sent["reasoning_effort"] == word


@pytest.mark.parametrize("word", ["LOW", "extreme", "", 5, None, ["low"]])
def test_an_invalid_effort_is_ignored(word: Any) -> None:
    """LLM-047"""
    options = {"openai": {"reasoningEffort": word}, "anthropic": {"effort": word}}
    assert "reasoning_effort" not in body(chat_model(), make_request(prompt="x", provider_options=options))
    assert "output_config" not in body(claude(), make_request(prompt="x", provider_options=options))


@pytest.mark.parametrize("word", ["none", "minimal"])
def test_a_valid_effort_that_cannot_be_expressed_is_refused(word: str) -> None:
    """LLM-047, LLM-226"""
    with pytest.raises(LLMError) as caught:
        prepare(claude(), make_request(prompt="x", provider_options={"anthropic": {"effort": word}}))
    assert caught.value.reason == "InvalidRequest"


def test_options_of_another_namespace_are_not_read() -> None:
    """LLM-027, LLM-047"""
    options = {"anthropic": {"store": True, "reasoningEffort": "low"}, "openai": {"effort": "low", "store": "yes"}}
    request = make_request(prompt="x", provider_options=options)
    assert body(chat_model(), request) == body(chat_model(), make_request(prompt="x"))
    assert body(claude(), request) == body(claude(), make_request(prompt="x"))


# -- address and headers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["https://h/v1", "https://h/v1/", "https://h/v1///"])
def test_the_path_follows_the_trimmed_base(base: str) -> None:
    """LLM-043"""
    request = http_request(prepare(chat_model(base_url=base), make_request(prompt="x")))
    assert request.url == "https://h/v1/chat/completions"


def test_the_request_replaces_a_key_of_the_endpoints_query() -> None:
    """LLM-043"""
    model = chat_model(base_url="https://h/v1")
    model = model.replace(route=model.route.replace(query=(("api-version", "1"), ("a", "b c"))))
    request = make_request(prompt="x", http=HttpOverlay(query={"api-version": "2", "z": "&"}))
    sent = http_request(prepare(model, request))
    assert sent.url == "https://h/v1/chat/completions?api-version=2&a=b+c&z=%26"


def test_headers_apply_in_order_whatever_their_case() -> None:
    """LLM-044: route, request, credential, and the content type last."""
    model = chat_model()
    route = model.route.replace(headers=(("X-One", "route"), ("X-Two", "route"), ("Content-Type", "text/plain")))
    overlay = HttpOverlay(
        headers={"x-two": "request", "AUTHORIZATION": "request", "content-TYPE": "text/html", "Accept": "a/b"}
    )
    sent = http_request(prepare(model.replace(route=route), make_request(prompt="x", http=overlay)))
    assert dict(sent.headers) == {
        "accept": "a/b",
        "x-one": "route",
        "x-two": "request",
        "authorization": f"Bearer {KEY}",
        "content-type": "application/json",
    }


# -- order of compilation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [chat_model(), claude()], ids=["chat", "claude"])
def test_equal_requests_give_equal_bytes(model: Model) -> None:
    """LLM-219: no clock and no chance in a body, and the order of options given does not matter for its prefix."""
    request = make_request(
        system=["a", "b"], messages=[user("x")], tools=[WEATHER], generation=Generation(temperature=0.1, top_p=0.2)
    )
    assert prepare(model, request).body == prepare(model, request).body
