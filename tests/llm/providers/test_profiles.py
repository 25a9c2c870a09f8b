"""Vendors who speak Chat: data, one protocol, and what OpenRouter adds."""

from __future__ import annotations

from typing import Any

import pytest
from tests.llm.support import HELLO_CHAT, Playback, Played, body, chunk, collect, failure, play, sse

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.providers.profiles import PROFILES, Profile
from holdfast.llm.request import Generation, ReasoningPart, TextPart, assistant, make_request, user
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.route import Route
from holdfast.llm.stream import http_request, prepare

URLS = {
    "baseten": "https://inference.baseten.co/v1",
    "cerebras": "https://api.cerebras.ai/v1",
    "deepinfra": "https://api.deepinfra.com/v1/openai",
    "deepseek": "https://api.deepseek.com/v1",
    "fireworks": "https://api.fireworks.ai/inference/v1",
    "groq": "https://api.groq.com/openai/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "togetherai": "https://api.together.xyz/v1",
    "xai": "https://api.x.ai/v1",
}


def model_of(profile: Profile, id: str = "m", key: str | None = "vendor-key") -> Model:
    route = Route(profile.id, profile.protocol, profile.base_url, KeyAuth(key))
    return Model(id, profile.id, route, capabilities=profile.capabilities)


def test_the_vendors_and_where_they_live() -> None:
    """LLM-310"""
    assert {id: profile.base_url for id, profile in PROFILES.items()} == URLS
    assert all(profile.id == id for id, profile in PROFILES.items())


@pytest.mark.parametrize("id", list(URLS))
def test_one_protocol_and_a_bearer_key_for_all(id: str) -> None:
    """LLM-310, LLM-002"""
    sent = http_request(prepare(model_of(PROFILES[id]), make_request(prompt="x")))
    assert isinstance(PROFILES[id].protocol, OpenAIChat)
    assert sent.url == f"{URLS[id]}/chat/completions"
    assert sent.headers["authorization"] == "Bearer vendor-key"


@pytest.mark.parametrize("id", list(URLS))
def test_vendors_keep_the_old_name_of_the_limit(id: str) -> None:
    """LLM-241, LLM-318"""
    assert (
        body(model_of(PROFILES[id]), make_request(prompt="x", generation=Generation(max_tokens=5)))["max_tokens"] == 5
    )


def test_keys_of_profiles_come_from_these_variables() -> None:
    """LLM-311"""
    assert PROFILES["openrouter"].key_variables == ("OPENROUTER_API_KEY",)
    assert PROFILES["xai"].key_variables == ("XAI_API_KEY",)


def test_a_missing_key_is_missing_for_every_vendor() -> None:
    """LLM-341, LLM-311: nothing is read from the environment here."""
    for profile in PROFILES.values():
        with pytest.raises(LLMError) as caught:
            http_request(prepare(model_of(profile, key=None), make_request(prompt="x")))
        assert (caught.value.reason, caught.value.kind) == ("Authentication", "missing")


@pytest.mark.anyio
async def test_failures_name_the_vendor() -> None:
    """LLM-310, LLM-362"""
    broken = Played([b": hello\n\n", LLMError("Transport", "reset", kind="read")])
    error = await failure(model_of(PROFILES["groq"]), broken)
    assert error.message.startswith("Failed to read groq/groq stream")


def test_adding_a_vendor_needs_no_code() -> None:
    """LLM-318"""
    vendor = Profile(
        "acme",
        "https://acme.example/v1/",
        ("ACME_API_KEY",),
        capabilities=Capabilities(completion_tokens_field=True, reasoning_replay=True, images=False),
        protocol=OpenAIChat(name="Acme", namespace="acme", passthrough=("routing",)),
    )
    request = make_request(
        messages=[user("a"), assistant(ReasoningPart(text="hm"), TextPart(text="b")), user("c")],
        generation=Generation(max_tokens=5),
        provider_options={"acme": {"routing": {"fast": True}, "other": 1}},
    )
    model = model_of(vendor)
    assert http_request(prepare(model, request)).url == "https://acme.example/v1/chat/completions"
    assert body(model, request) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "routing": {"fast": True},
        "max_completion_tokens": 5,
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b", "reasoning_content": "hm"},
            {"role": "user", "content": "c"},
        ],
    }


@pytest.mark.parametrize(
    ("id", "replayed"), [("deepseek", True), ("openrouter", True), ("groq", False), ("xai", False)]
)
def test_reasoning_goes_back_to_those_who_take_it(id: str, replayed: bool) -> None:
    """LLM-244, LLM-318"""
    messages = [user("a"), assistant(ReasoningPart(text="hm"), TextPart(text="b")), user("c")]
    sent = body(model_of(PROFILES[id]), make_request(messages=messages))["messages"][1]
    assert ("reasoning_content" in sent) is replayed


# -- OpenRouter ------------------------------------------------------------------------------------------------------

ROUTER = model_of(PROFILES["openrouter"], "openai/gpt-4o-mini")


def routed(**options: Any) -> dict[str, Any]:
    sent: dict[str, Any] = body(ROUTER, make_request(prompt="x", provider_options={"openrouter": options}))
    return {key: value for key, value in sent.items() if key not in ("model", "stream", "stream_options", "messages")}


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"usage": True}, {"usage": {"include": True}}),
        ({"usage": {"include": False}}, {"usage": {"include": False}}),
        ({"usage": False}, {}),
        ({"reasoning": {"effort": "high"}}, {"reasoning": {"effort": "high"}}),
        ({"reasoning": "high"}, {}),
        ({"promptCacheKey": "k"}, {"prompt_cache_key": "k"}),
        ({"provider": {"order": ["a"]}, "models": ["b"]}, {"provider": {"order": ["a"]}, "models": ["b"]}),
        ({"transforms": [], "plugins": [{"id": "web"}]}, {"transforms": [], "plugins": [{"id": "web"}]}),
        ({"unknown": 1}, {}),
    ],
)
def test_options_of_openrouter_are_sent_in_their_fields(options: dict[str, Any], sent: dict[str, Any]) -> None:
    """LLM-312, LLM-216, LLM-318"""
    assert routed(**options) == sent


def test_options_of_openrouter_are_not_sent_to_other_vendors() -> None:
    """LLM-312"""
    options = {"openrouter": {"usage": True}, "openai": {"usage": True, "reasoning": {}, "promptCacheKey": "k"}}
    sent = body(model_of(PROFILES["groq"]), make_request(prompt="x", provider_options=options))
    assert not {"usage", "reasoning", "prompt_cache_key"} & set(sent)


@pytest.mark.anyio
async def test_an_openrouter_stream_with_comments_and_a_repeated_finish_is_read() -> None:
    """LLM-312, LLM-248, LLM-088: comments, the last chunk again with usage, the native reason and the cost."""
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.25}
    last = {"delta": {"content": ""}, "finish_reason": "stop", "native_finish_reason": "end_turn"}
    data = (
        b": OPENROUTER PROCESSING\n\n"
        + sse(chunk({"content": "a"}))
        + b": OPENROUTER PROCESSING\n\n"
        + sse({"choices": [last]}, {"choices": [last], "usage": usage})
        + b"data: [DONE]\n\n"
    )
    events = await collect(ROUTER, play(data, 3))
    assert events[-1] == ev.Finish(
        "stop",
        ev.Usage(input=5, output=2, total=7, non_cached=5, metadata={"openrouter": usage}),
        {"openrouter": {"finishReason": "stop", "native": "end_turn"}},
    )


# -- quirks ----------------------------------------------------------------------------------------------------------

USAGE = {"prompt_tokens": 45, "completion_tokens": 2, "total_tokens": 47}
ZERO = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}}
WHOLE = {"tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}, "index": 0}]}
TAIL = {"tool_calls": [{"index": 0, "function": {"arguments": '":1}'}}]}
OPENING = {"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a'}}]}


@pytest.mark.anyio
@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([chunk(WHOLE), chunk({"content": ""}, finish="tool_calls", usage=USAGE)], id="deepseek"),
        pytest.param(
            [
                {**chunk({"role": "assistant", "content": None}), "x_groq": {"id": "r", "seed": 1}},
                chunk(WHOLE),
                {**chunk(finish="tool_calls"), "x_groq": {"usage": USAGE}, "usage": USAGE},
                {"choices": [], "usage": USAGE, "service_tier": "on_demand"},
            ],
            id="groq",
        ),
        pytest.param(
            [
                {
                    "choices": [
                        {"index": 0, "text": "", "token_id": 9, "seed": 2**63, "delta": {**OPENING, "token_id": None}}
                    ]
                },
                chunk(TAIL, finish="tool_calls", usage=USAGE),
            ],
            id="together",
        ),
        pytest.param(
            [
                chunk({"reasoning_content": ""}),
                {"choices": [{"delta": OPENING, "stop_reason": 200012, "token_ids": None}]},
                chunk(TAIL),
                chunk(finish="tool_calls", usage=USAGE),
                chunk(finish="tool_calls", usage=ZERO),
            ],
            id="workers-ai",
        ),
        pytest.param(
            [
                chunk(OPENING, obfuscation="aa"),
                chunk(TAIL, obfuscation="b"),
                chunk(finish="stop", obfuscation="c"),
                {"choices": [], "usage": USAGE, "obfuscation": ""},
            ],
            id="openai",
        ),
    ],
)
async def test_quirks_of_vendors_do_not_break_decoding(frames: list[dict[str, Any]]) -> None:
    """LLM-317, LLM-087, LLM-101: the same call, the same usage, one finish."""
    events = await collect(model_of(PROFILES["groq"]), play(sse(*frames) + b"data: [DONE]\n\n", 5))
    assert [event for event in events if isinstance(event, ev.ToolCall)] == [ev.ToolCall("x", "f", {"a": 1})]
    last = events[-1]
    assert isinstance(last, ev.Finish)
    assert last.reason == "tool-calls"
    assert last.usage is not None
    assert (last.usage.input, last.usage.output, last.usage.total) == (45, 2, 47)


@pytest.mark.anyio
async def test_a_vendor_is_reached_like_any_other() -> None:
    """LLM-002"""
    transport = Playback(play(HELLO_CHAT))
    await collect(model_of(PROFILES["togetherai"]), transport)
    assert transport.requests[0].url.startswith("https://api.together.xyz/")
