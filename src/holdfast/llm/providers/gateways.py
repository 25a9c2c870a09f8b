"""Others who serve OpenAI's protocols: Azure, GitHub Copilot, Cloudflare's gateway and Workers AI, xAI.

Each is an address, a credential in its place and a choice of protocol; what goes over the wire is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.llm.errors import invalid_request
from holdfast.llm.model import Capabilities, Model, deep_merge
from holdfast.llm.providers.openai import NAMESPACE, Api, openai_capabilities, openai_defaults, responses_route
from holdfast.llm.route.auth import Auth, BothAuth, KeyAuth
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import Timeouts
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

AZURE_VARIABLES = ("AZURE_OPENAI_API_KEY",)
GATEWAY_VARIABLES = ("CLOUDFLARE_API_TOKEN", "CF_AIG_TOKEN")
WORKERS_AI_VARIABLES = ("CLOUDFLARE_API_KEY", "CLOUDFLARE_WORKERS_AI_TOKEN")
XAI_VARIABLES = ("XAI_API_KEY",)
XAI_URL = "https://api.x.ai/v1"
GATEWAY_HEADER = "cf-aig-authorization"
_GENERATION = pattern(r"gpt-(\d+)")


class Settings(Frozen):
    """What a configuration may say about any of them. Its options and capabilities win over the defaults."""

    headers: Mapping[str, str] | None = None
    timeouts: Timeouts = Timeouts()
    provider_options: Mapping[str, Mapping[str, Any]] | None = None
    capabilities: Capabilities | None = None
    output_limit: int | None = None


DEFAULT_SETTINGS = Settings()


def azure_model(
    id: str,
    key: str | None,
    *,
    resource: str | None = None,
    base_url: str | None = None,
    api_version: str = "v1",
    use_completion_urls: bool = False,
    settings: Settings = DEFAULT_SETTINGS,
) -> Model:
    """`id` is a deployment's, of the resource or below another address."""
    if not base_url and not resource:
        raise invalid_request("Azure needs a resource name or a base URL")
    return _model(
        "azure",
        id,
        base_url or f"https://{resource}.openai.azure.com/openai/v1",
        KeyAuth(key, "api-key", "", source=AZURE_VARIABLES[0]),
        "chat" if use_completion_urls else "responses",
        settings,
        query=(("api-version", api_version),),
        guessed=True,
    )


def copilot_model(
    id: str,
    key: str | None,
    base_url: str | None,
    *,
    endpoint: Api | None = None,
    settings: Settings = DEFAULT_SETTINGS,
) -> Model:
    """GitHub's own endpoint for its Copilot, whose address depends on the account."""
    if not base_url:
        raise invalid_request("GitHub Copilot needs a base URL")
    return _model(
        "github-copilot", id, base_url, KeyAuth(key), endpoint or copilot_endpoint(id), settings, guessed=True
    )


def copilot_endpoint(id: str) -> Api:
    """Its newer OpenAI models speak Responses, but for one family."""
    generation = _GENERATION.match(id)
    newer = generation is not None and int(generation[1]) >= 5 and not id.startswith("gpt-5-mini")
    return "responses" if newer else "chat"


def cloudflare_gateway_model(
    id: str,
    token: str | None,
    *,
    account: str,
    gateway: str = "default",
    provider_key: str | None = None,
    settings: Settings = DEFAULT_SETTINGS,
) -> Model:
    """`id` names the provider behind the gateway too; `provider_key` is for that one, if the gateway holds none."""
    own = KeyAuth(token, GATEWAY_HEADER, source=" or ".join(GATEWAY_VARIABLES))
    return _model(
        "cloudflare-ai-gateway",
        id,
        f"https://gateway.ai.cloudflare.com/v1/{account}/{gateway or 'default'}/compat",
        BothAuth(own, KeyAuth(provider_key)) if provider_key else own,
        "chat",
        settings,
    )


def workers_ai_model(id: str, key: str | None, *, account: str, settings: Settings = DEFAULT_SETTINGS) -> Model:
    return _model(
        "cloudflare-workers-ai",
        id,
        f"https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1",
        KeyAuth(key, source=" or ".join(WORKERS_AI_VARIABLES)),
        "chat",
        settings,
    )


def xai_model(id: str, key: str | None, *, api: Api = "responses", settings: Settings = DEFAULT_SETTINGS) -> Model:
    return _model("xai", id, XAI_URL, KeyAuth(key, source=XAI_VARIABLES[0]), api, settings)


def _model(
    provider: str,
    id: str,
    base_url: str,
    auth: Auth,
    api: Api,
    settings: Settings,
    *,
    query: tuple[tuple[str, str], ...] = (),
    guessed: bool = False,
) -> Model:
    """`guessed`: the models are OpenAI's, so that their names tell what they take."""
    headers = tuple((settings.headers or {}).items())
    if api == "responses":
        route = responses_route(auth, base_url, headers=headers, query=query, timeouts=settings.timeouts)
        route = route.replace(id=provider)
    else:
        from holdfast.llm.protocols.openai_chat import OpenAIChat

        protocol = OpenAIChat(name=f"{provider} Chat")
        route = Route(provider, protocol, base_url, auth, query, headers, timeouts=settings.timeouts)
    defaults = {NAMESPACE: openai_defaults(id, verbosity=False)} if guessed else {}
    # Whether another host takes OpenAI's role for updates is not known, so it gets them as text.
    capabilities = openai_capabilities(id).replace(chronological_system=None) if guessed else Capabilities()
    return Model(
        id,
        provider,
        route,
        provider_options=deep_merge(defaults, settings.provider_options) or None,
        capabilities=settings.capabilities or capabilities,
        output_limit=settings.output_limit,
    )
