"""OpenAI itself: Responses unless Chat is asked for, over HTTP or a WebSocket, with what suits its models.

Of the two protocols only the one in use is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from holdfast.llm.errors import invalid_request
from holdfast.llm.model import Capabilities, Model, deep_merge
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import Timeouts
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.llm.route.auth import Auth

PROVIDER = "openai"
BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
NAMESPACE = "openai"
Api = Literal["responses", "chat"]

DEFAULT_TIMEOUTS = Timeouts()
# Families that think, and therefore refuse sampling controls and want the newer name of the output limit.
_THINKS = pattern(r"(?:^|[/:])(?:o\d|gpt-(?:[5-9]|1\d)(?!\d)(?!.*-chat)|codex)")


def openai_model(
    id: str,
    key: str | None,
    *,
    api: Api = "responses",
    transport: Literal["http", "websocket"] = "http",
    base_url: str = BASE_URL,
    headers: Mapping[str, str] | None = None,
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
    provider_options: Mapping[str, Mapping[str, Any]] | None = None,
    capabilities: Capabilities | None = None,
    output_limit: int | None = None,
) -> Model:
    """`provider_options` win over what OpenAI's models get by default; `capabilities`, from a catalog, over a guess."""
    auth = KeyAuth(key, source=KEY_VARIABLE)
    extra = tuple((headers or {}).items())
    if api == "responses":
        route = responses_route(auth, base_url, transport=transport, headers=extra, timeouts=timeouts)
    elif transport == "websocket":
        raise invalid_request("OpenAI Chat has no WebSocket form")
    else:
        from holdfast.llm.protocols.openai_chat import OpenAIChat

        route = Route("openai-chat", OpenAIChat(), base_url, auth, headers=extra, timeouts=timeouts)
    defaults = openai_defaults(id, verbosity=api == "responses")
    return Model(
        id,
        PROVIDER,
        route,
        provider_options=deep_merge({NAMESPACE: defaults}, provider_options),
        capabilities=capabilities or openai_capabilities(id),
        output_limit=output_limit,
    )


def responses_route(
    auth: Auth,
    base_url: str = BASE_URL,
    *,
    transport: Literal["http", "websocket"] = "http",
    headers: tuple[tuple[str, str], ...] = (),
    query: tuple[tuple[str, str], ...] = (),
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
) -> Route:
    """Responses wherever it is spoken. Nothing is stored at the provider unless somebody asks for it."""
    from holdfast.llm.protocols.openai_responses import OpenAIResponses

    return Route(
        "openai-responses" if transport == "http" else "openai-responses-websocket",
        OpenAIResponses(),
        base_url,
        auth,
        query=query,
        headers=headers,
        transport=transport,
        provider_options={NAMESPACE: {"store": False}},
        timeouts=timeouts,
    )


def openai_defaults(id: str, *, verbosity: bool) -> dict[str, Any]:
    """What OpenAI's models are asked for when nobody says otherwise. `verbosity` is OpenAI's own Responses only."""
    defaults: dict[str, Any] = {"store": False}
    if "gpt-5" in id and "gpt-5-chat" not in id and "gpt-5-pro" not in id:
        defaults |= {
            "reasoningEffort": "medium",
            "reasoningSummary": "auto",
            "include": ["reasoning.encrypted_content"],
        }
    if verbosity and "gpt-5." in id and "codex" not in id and "-chat" not in id:
        defaults["textVerbosity"] = "low"
    return defaults


def openai_capabilities(id: str) -> Capabilities:
    """A guess from the name; what a catalog says is better."""
    thinks = _THINKS.search(id) is not None
    return Capabilities(
        chronological_system="developer",
        sampling=not thinks,
        completion_tokens_field=thinks,
        native_json_with_tools=True,
    )
