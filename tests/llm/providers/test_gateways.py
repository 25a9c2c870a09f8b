"""Azure, Copilot, Cloudflare and xAI: where a request goes, with which credential, in which protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.llm.cassette import CassetteTransport, load
from tests.llm.cassettes import either_cassettes

from holdfast.llm.errors import LLMError
from holdfast.llm.model import Model
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.providers.gateways import azure_model, copilot_endpoint, copilot_model
from holdfast.llm.providers.openai import openai_model
from holdfast.llm.request import Generation, ToolDefinition, make_request, update, user
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.route import Route
from holdfast.llm.stream import generate, http_request, prepare
from holdfast.schema.codec import decode_any

pytestmark = pytest.mark.anyio

ACCEPT = {"accept": "text/event-stream", "content-type": "application/json"}
THINKING = {"reasoning": {"effort": "medium", "summary": "auto"}, "include": ["reasoning.encrypted_content"]}


def sent(model: Model) -> tuple[str, dict[str, str]]:
    request = http_request(prepare(model, make_request(prompt="hi")))
    return request.url, dict(request.headers)


def body(model: Model, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = decode_any(prepare(model, make_request(**{"prompt": "hi", **more})).body)
    return found


def missing(model: Model) -> str:
    with pytest.raises(LLMError) as caught:
        sent(model)
    assert (caught.value.reason, caught.value.kind) == ("Authentication", "missing")
    return caught.value.message


# -- Azure -------------------------------------------------------------------------------------------------------


def test_azure_speaks_responses_with_its_own_header() -> None:
    """LLM-313: the resource's address, `api-version`, `api-key`, and no `authorization`."""
    assert sent(azure_model("my-deployment", "k", resource="contoso")) == (
        "https://contoso.openai.azure.com/openai/v1/responses?api-version=v1",
        {**ACCEPT, "api-key": "k"},
    )


def test_azure_speaks_chat_when_told() -> None:
    """LLM-313."""
    model = azure_model("d", "k", resource="contoso", api_version="2025-04-01", use_completion_urls=True)
    assert sent(model)[0] == "https://contoso.openai.azure.com/openai/v1/chat/completions?api-version=2025-04-01"


def test_azure_needs_a_resource_or_a_base_url() -> None:
    """LLM-313, LLM-043."""
    assert (
        sent(azure_model("d", "k", base_url="https://proxy/azure/"))[0]
        == "https://proxy/azure/responses?api-version=v1"
    )
    with pytest.raises(LLMError, match="resource"):
        azure_model("d", "k")


def test_a_missing_azure_key_is_named() -> None:
    """LLM-341, LLM-313."""
    assert "AZURE_OPENAI_API_KEY" in missing(azure_model("d", None, resource="contoso"))


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_azure_and_copilot_have_openai_defaults_but_no_verbosity(api: Any) -> None:
    """LLM-046."""
    azure = azure_model("gpt-5.1", "k", resource="r", use_completion_urls=api == "chat")
    copilot = copilot_model("gpt-5.1" if api == "responses" else "gpt-5-mini", "k", "https://api.githubcopilot.com")
    plain = azure_model("gpt-4.1", "k", resource="r", use_completion_urls=api == "chat")
    for model in (azure, copilot):
        asked = body(model)
        assert (asked["store"], "text" in asked) == (False, False)
        assert {key: asked[key] for key in asked if key in THINKING} == (THINKING if api == "responses" else {})
        assert asked.get("reasoning_effort") == (None if api == "responses" else "medium")
    assert (body(plain)["store"], "reasoning" in body(plain)) == (False, False)


# -- Copilot -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "api"),
    [
        ("gpt-5", "responses"),
        ("gpt-5.1-codex", "responses"),
        ("gpt-6", "responses"),
        ("gpt-10", "responses"),
        ("gpt-5-mini", "chat"),
        ("gpt-5-mini-2026", "chat"),
        ("gpt-4.1", "chat"),
        ("gpt-4o", "chat"),
        ("claude-sonnet-4.5", "chat"),
        ("my-gpt-5", "chat"),
    ],
)
def test_copilot_uses_responses_or_chat_by_model(id: str, api: str) -> None:
    """LLM-314."""
    assert copilot_endpoint(id) == api
    path = "responses" if api == "responses" else "chat/completions"
    assert sent(copilot_model(id, "k", "https://api.githubcopilot.com/")) == (
        f"https://api.githubcopilot.com/{path}",
        {**ACCEPT, "authorization": "Bearer k"},
    )


def test_copilot_needs_an_address_and_a_key() -> None:
    """LLM-314"""
    with pytest.raises(LLMError, match="base URL"):
        copilot_model("gpt-5", "k", None)
    assert missing(copilot_model("gpt-5", "", "https://x"))


# -- Cloudflare --------------------------------------------------------------------------------------------------


def cloudflare(id: str, path: str, **headers: str) -> Model:
    """As configuration makes it: an OpenAI-compatible provider."""
    route = Route("cloudflare", OpenAIChat(), path, KeyAuth("k"), headers=tuple(headers.items()))
    return Model(id, "cloudflare", route)


@either_cassettes
@pytest.mark.parametrize("chunk", [1, 7, None])
async def test_a_recorded_turn_through_the_gateway(cassettes: Path, chunk: int | None) -> None:
    """LLM-315, LLM-317, LLM-087: the finish comes twice, with zeros for usage the second time."""
    name = "cloudflare-ai-gateway-workers-ai-llama-3-1-8b-text"
    transport = CassetteTransport(load(cassettes / "cloudflare-ai-gateway" / f"{name}.json"), chunk=chunk)
    base = "https://gateway.ai.cloudflare.com/v1/{account}/{gateway}/compat"
    model = cloudflare("workers-ai/@cf/meta/llama-3.1-8b-instruct", base, **{"cf-aig-authorization": "Bearer t"})
    request = make_request(
        system="You are concise.",
        prompt="Reply exactly with: Hello!",
        generation=Generation(max_tokens=40, temperature=0),
    )
    response = await generate(transport, model, request)
    assert (response.text, response.reason, response.usage and response.usage.total) == ("Hello!", "stop", 47)
    await transport.close()


@either_cassettes
@pytest.mark.parametrize("chunk", [1, 7, None])
async def test_a_recorded_call_of_workers_ai(cassettes: Path, chunk: int | None) -> None:
    """LLM-315, LLM-317: reasoning that begins empty, then a call."""
    name = "cloudflare-workers-ai-gpt-oss-20b-tools-tool-call"
    transport = CassetteTransport(load(cassettes / "cloudflare-workers-ai" / f"{name}.json"), chunk=chunk)
    weather = ToolDefinition(
        name="get_weather",
        description="Get current weather for a city.",
        input_schema={
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    )
    request = make_request(
        system="Call tools exactly as requested.",
        prompt="Call get_weather with city exactly Paris.",
        tools=[weather],
        tool_choice="get_weather",
        generation=Generation(max_tokens=120, temperature=0),
    )
    base = "https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1"
    response = await generate(transport, cloudflare("@cf/openai/gpt-oss-20b", base), request)
    assert [(call.name, call.input) for call in response.calls] == [("get_weather", {"city": "Paris"})]
    assert response.reason == "tool-calls"
    await transport.close()


# -- xAI ---------------------------------------------------------------------------------------------------------


def test_xai() -> None:
    """LLM-316: Responses below another address. LLM-046: nothing is stored."""
    model = openai_model("grok-4", "k", base_url="https://api.x.ai/v1")
    assert sent(model) == ("https://api.x.ai/v1/responses", {**ACCEPT, "authorization": "Bearer k"})
    assert body(model)["store"] is False


# -- all of them -------------------------------------------------------------------------------------------------


def test_failures_of_a_gateway_name_provider_and_route() -> None:
    """LLM-310: by provider and route, and in what is refused."""
    model = azure_model("d", "k", resource="r", use_completion_urls=True)
    assert (model.provider, model.route.id) == ("azure", "azure")
    with pytest.raises(LLMError, match="azure Chat"):
        body(model, tools=[ToolDefinition(name="not a name", description="", input_schema={})])


def test_updates_are_text_where_the_host_is_not_openai() -> None:
    """LLM-128: unknown hosts get the fallback, whatever the model's name."""
    model = azure_model("gpt-5", "k", resource="r", use_completion_urls=True)
    wrapped = "<system-update>\nu\n</system-update>"
    asked = body(model, prompt=None, messages=[user("hi"), update("u")])
    assert asked["messages"] == [{"role": "user", "content": f"hi\n{wrapped}"}]
