"""OpenAI's own models: which protocol, which defaults, what a name tells."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.llm.errors import LLMError
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.providers.openai import openai_capabilities, openai_defaults, openai_model, responses_route
from holdfast.llm.request import Generation, make_request
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.stream import http_request, prepare

THINKING = {"reasoningEffort": "medium", "reasoningSummary": "auto", "include": ["reasoning.encrypted_content"]}
INPUT = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]


def sent(model: Model, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(prepare(model, make_request(prompt="hi", **more)).body)
    return body


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("gpt-4.1-mini", {}),
        ("gpt-5", THINKING),
        ("gpt-5-mini", THINKING),
        ("gpt-5-codex", THINKING),
        ("gpt-5-chat-latest", {}),
        ("gpt-5-pro", {}),
        ("gpt-5.5", {**THINKING, "textVerbosity": "low"}),
        ("openai/gpt-5.1", {**THINKING, "textVerbosity": "low"}),
        ("gpt-5.1-codex-max", THINKING),
        ("gpt-5.2-chat-latest", THINKING),
    ],
)
def test_openai_defaults_depend_on_the_model_name(id: str, expected: dict[str, Any]) -> None:
    """LLM-045, LLM-046: nothing is stored; models that think are asked to show it and to give it back encrypted; the
    short answers are for OpenAI's own Responses alone."""
    assert openai_defaults(id, verbosity=True) == {"store": False, **expected}
    without = {key: value for key, value in expected.items() if key != "textVerbosity"}
    assert openai_defaults(id, verbosity=False) == {"store": False, **without}


def test_openai_models_use_responses_by_default() -> None:
    """LLM-045: the defaults as they go out."""
    model = openai_model("gpt-5.5", "sk-key")
    assert (model.provider, model.route.id, model.route.transport) == ("openai", "openai-responses", "http")
    assert sent(model) == {
        "stream": True,
        "model": "gpt-5.5",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "medium", "summary": "auto"},
        "text": {"verbosity": "low"},
        "input": INPUT,
    }


def test_openai_models_use_chat_on_request() -> None:
    """LLM-045, LLM-241: no verbosity there; the limit by its newer name and no sampling for a model that thinks."""
    model = openai_model("gpt-5.5", "sk-key", api="chat")
    assert model.route.id == "openai-chat"
    assert sent(model, generation=Generation(max_tokens=9, temperature=1.0)) == {
        "model": "gpt-5.5",
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
        "reasoning_effort": "medium",
        "max_completion_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_an_explicit_option_wins() -> None:
    """LLM-045, LLM-040: of the model or of the request; `include: []` switches the default off."""
    given = {"openai": {"include": [], "reasoningEffort": "high", "store": True}}
    expected = {
        "stream": True,
        "model": "gpt-5.5",
        "store": True,
        "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"verbosity": "low"},
        "input": INPUT,
    }
    assert sent(openai_model("gpt-5.5", "k"), provider_options=given) == expected
    assert sent(openai_model("gpt-5.5", "k", provider_options=given)) == expected


def test_the_bare_route_stores_nothing() -> None:
    """LLM-046: nor does a model without any defaults of its own; null leaves the choice to the provider."""
    model = Model("gpt-5.5", "proxy", responses_route(KeyAuth("k"), "https://proxy.example/v1"))
    assert sent(model) == {"stream": True, "model": "gpt-5.5", "store": False, "input": INPUT}
    assert "store" not in sent(model, provider_options={"openai": {"store": None}})


def test_a_missing_openai_key_fails_before_anything_is_sent() -> None:
    """LLM-240, LLM-260, LLM-341: a missing key is noticed before anything is sent, and says where it is looked for."""
    request = http_request(prepare(openai_model("gpt-5", "sk-key"), make_request(prompt="hi")))
    assert (request.url, request.headers["authorization"]) == ("https://api.openai.com/v1/responses", "Bearer sk-key")
    chat = http_request(prepare(openai_model("gpt-5", "sk-key", api="chat"), make_request(prompt="hi")))
    assert chat.url == "https://api.openai.com/v1/chat/completions"
    with pytest.raises(LLMError, match="OPENAI_API_KEY") as caught:
        http_request(prepare(openai_model("gpt-5", None), make_request(prompt="hi")))
    assert (caught.value.reason, caught.value.kind) == ("Authentication", "missing")


def test_chat_is_not_available_over_a_websocket() -> None:
    """LLM-370: only Responses has one."""
    assert openai_model("gpt-5", "k", transport="websocket").route.id == "openai-responses-websocket"
    with pytest.raises(LLMError, match="no WebSocket form"):
        openai_model("gpt-5", "k", api="chat", transport="websocket")


@pytest.mark.parametrize(
    "id", ["o1", "o3-mini", "gpt-5", "gpt-5.1-codex", "openai/gpt-6", "ft:gpt-5-mini:x", "codex-mini"]
)
def test_names_of_models_that_think(id: str) -> None:
    """LLM-241, LLM-128."""
    expected = Capabilities(
        chronological_system="developer", sampling=False, completion_tokens_field=True, native_json_with_tools=True
    )
    assert openai_capabilities(id) == expected


@pytest.mark.parametrize("id", ["gpt-4.1", "gpt-4o", "gpt-35-turbo", "gpt-5-chat-latest", "gpt-5.1-chat", "omni"])
def test_names_of_models_that_do_not(id: str) -> None:
    """LLM-241, LLM-128."""
    expected = Capabilities(chronological_system="developer", native_json_with_tools=True)
    assert openai_capabilities(id) == expected


def test_the_catalog_decides_over_the_name_of_a_model() -> None:
    known = Capabilities(images=False)
    assert openai_model("gpt-5", "k", capabilities=known).capabilities == known
