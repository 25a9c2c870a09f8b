"""Azure and GitHub Copilot: OpenAI's protocols at another address, with another credential."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.llm.errors import invalid_request
from holdfast.llm.model import Model
from holdfast.llm.providers.openai import NAMESPACE, Api, openai_capabilities, openai_defaults, responses_route
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.route import Route
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from holdfast.llm.route.auth import Auth

AZURE_KEY = "AZURE_OPENAI_API_KEY"
_GENERATION = pattern(r"gpt-(\d+)")


def azure_model(
    id: str,
    key: str | None,
    *,
    resource: str | None = None,
    base_url: str | None = None,
    api_version: str = "v1",
    use_completion_urls: bool = False,
) -> Model:
    """`id` is that of a deployment, in the resource or below the base URL."""
    if not base_url and not resource:
        raise invalid_request("Azure needs a resource name or a base URL")
    return _model(
        "azure",
        id,
        base_url or f"https://{resource}.openai.azure.com/openai/v1",
        KeyAuth(key, "api-key", "", source=AZURE_KEY),
        "chat" if use_completion_urls else "responses",
        query=(("api-version", api_version),),
    )


def copilot_model(id: str, key: str | None, base_url: str | None) -> Model:
    """The base URL depends on the account."""
    if not base_url:
        raise invalid_request("GitHub Copilot needs a base URL")
    return _model("github-copilot", id, base_url, KeyAuth(key), copilot_endpoint(id))


def copilot_endpoint(id: str) -> Api:
    """Copilot serves newer OpenAI models by Responses, except the gpt-5-mini family."""
    generation = _GENERATION.match(id)
    newer = generation is not None and int(generation[1]) >= 5 and not id.startswith("gpt-5-mini")
    return "responses" if newer else "chat"


def _model(
    provider: str, id: str, base_url: str, auth: Auth, api: Api, *, query: tuple[tuple[str, str], ...] = ()
) -> Model:
    if api == "responses":
        route = responses_route(auth, base_url, query=query).replace(id=provider)
    else:
        from holdfast.llm.protocols.openai_chat import OpenAIChat

        route = Route(provider, OpenAIChat(name=f"{provider} Chat"), base_url, auth, query)
    return Model(
        id,
        provider,
        route,
        provider_options={NAMESPACE: openai_defaults(id, verbosity=False)},
        # It is not known whether these hosts accept OpenAI's role for system updates, so updates are sent as text.
        capabilities=openai_capabilities(id).replace(chronological_system=None),
    )
