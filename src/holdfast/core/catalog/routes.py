"""From a listed model to one that can be called: protocol, address, credential and limits.

A protocol is imported when one of its models is asked for, which keeps the start quick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.catalog import packages
from holdfast.core.catalog.errors import UnsupportedApi
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.route.auth import BoundAuth, KeyAuth, NoAuth, origin_of
from holdfast.llm.route.transport import Timeouts
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.catalog.draft import Facts
    from holdfast.core.catalog.packages import Way
    from holdfast.llm.route.auth import Auth
    from holdfast.llm.route.route import Route
    from holdfast.schema.catalog import ModelApi, ModelInfo

FIRST_BYTE_SECONDS = 300.0
# A key where each protocol wants it; all others take it as a bearer token.
_KEY_HEADERS: dict[Way, str] = {"messages": "x-api-key", "gemini": "x-goog-api-key", "azure": "api-key"}


class Credentials(Frozen):
    """At most one of them. `bearer` is a token even where the protocol wants a key in a header of its own."""

    key: str | None = None
    bearer: str | None = None
    oauth: Auth | None = None

    def __repr__(self) -> str:
        return "Credentials(…)"


class Access(Frozen):
    credentials: Credentials
    settings: Mapping[str, Any]
    environment: Mapping[str, str]
    facts: Facts


def is_supported(api: ModelApi) -> bool:
    found = packages.reached(api)
    return found is not None and found.package.way is not None and bool(found.url or found.package.way in _ADDRESSED)


def route(info: ModelInfo, access: Access) -> Model:
    """`info` is projected: what it inherits is in it. Raises UnsupportedApi."""
    found = packages.reached(info.api)
    if found is None or found.package.way is None:
        raise UnsupportedApi(info.provider_id, info.id, packages.named(info.api))
    way = found.package.way
    if not found.url and way not in _ADDRESSED:
        reason = "its provider has no address; give options.baseURL"
        raise UnsupportedApi(info.provider_id, info.id, packages.named(info.api), reason)
    model = _BUILDERS[way](info, found, access)
    auth = _auth(way, access.credentials)
    chosen = model.route.replace(
        auth=_bound(auth if auth is not None else model.route.auth if way == "converse" else NoAuth(), model.route),
        query=(*model.route.query, *_query(access.settings)),
        timeouts=_timeouts(access.settings),
    )
    return model.replace(
        provider=info.provider_id,
        route=chosen,
        output_limit=info.limit.output or None,
        compatibility=_compatibility(info, way),
        capabilities=_capabilities(model.capabilities, info, access.facts),
    )


def _bound(auth: Auth, to: Route) -> Auth:
    """To the address that was resolved together with it: nothing that changes a request later takes it elsewhere."""
    return auth if isinstance(auth, NoAuth) else BoundAuth(auth, origin_of(to.base_url))


def _auth(way: Way, credentials: Credentials) -> Auth | None:
    if credentials.oauth is not None:
        return credentials.oauth
    if credentials.bearer is not None:
        return KeyAuth(credentials.bearer)
    if credentials.key is None:
        return None
    header = _KEY_HEADERS.get(way)
    return KeyAuth(credentials.key, header, "") if header else KeyAuth(credentials.key)


def _responses(info: ModelInfo, found: packages.Reached, access: Access) -> Model:
    from holdfast.llm.providers.openai import BASE_URL, openai_model

    return openai_model(info.api.id, None, base_url=found.url or BASE_URL)


def _azure(info: ModelInfo, found: packages.Reached, access: Access) -> Model:
    from holdfast.llm.providers.gateways import azure_model

    resource, version = access.settings.get("resourceName"), access.settings.get("apiVersion")
    if not found.url and not resource:
        reason = "set AZURE_RESOURCE_NAME, options.resourceName or options.baseURL"
        raise UnsupportedApi(info.provider_id, info.id, packages.named(info.api), reason)
    return azure_model(
        info.api.id,
        None,
        resource=resource,
        base_url=found.url,
        api_version=str(version or "v1"),
        use_completion_urls=access.settings.get("useCompletionUrls") is True,
    )


def _copilot(info: ModelInfo, found: packages.Reached, access: Access) -> Model:
    from holdfast.llm.providers.gateways import copilot_model

    return copilot_model(info.api.id, None, found.url)


def _chat(info: ModelInfo, found: packages.Reached, access: Access) -> Model:
    from holdfast.llm.protocols.openai_chat import OpenAIChat
    from holdfast.llm.providers.profiles import PROFILES
    from holdfast.llm.route.route import Route

    profile = PROFILES.get(info.provider_id)
    spoken = PROFILES["openrouter"].protocol if found.package.dialect is packages.OPENROUTER else OpenAIChat()
    protocol = spoken.replace(passthrough=(*spoken.passthrough, "thinking"))
    capabilities = profile.capabilities if profile else Capabilities()
    return Model(
        info.api.id,
        info.provider_id,
        Route(info.provider_id, protocol, found.url or ""),
        capabilities=capabilities,
    )


def _messages(info: ModelInfo, found: packages.Reached, access: Access) -> Model:
    from holdfast.llm.providers.anthropic import BASE_URL, anthropic_capabilities, anthropic_route

    way = anthropic_route(None, id=info.provider_id, base_url=found.url or BASE_URL)
    return Model(info.api.id, info.provider_id, way, capabilities=anthropic_capabilities(info.api.id))


def _gemini(info: ModelInfo, found: packages.Reached, access: Access) -> Model:
    from holdfast.llm.providers.google import BASE_URL, google_route

    return Model(info.api.id, info.provider_id, google_route(None, id=info.provider_id, base_url=found.url or BASE_URL))


def _converse(info: ModelInfo, found: packages.Reached, access: Access) -> Model:
    from holdfast.llm.providers.amazon import bedrock_capabilities, bedrock_route
    from holdfast.llm.route.sigv4 import Credentials as Signing
    from holdfast.llm.route.sigv4 import FixedCredentials

    given = access.settings
    region = given.get("region")
    profile = given.get("profile")
    environment = {**access.environment, "AWS_PROFILE": profile} if isinstance(profile, str) else access.environment
    source = None
    if given.get("accessKeyId") and given.get("secretAccessKey"):
        signing = Signing(given["accessKeyId"], given["secretAccessKey"], given.get("sessionToken"))
        source = FixedCredentials(signing)
    way = bedrock_route(
        None, source=source, environment=environment, region=region, id=info.provider_id, base_url=found.url
    )
    return Model(info.api.id, info.provider_id, way, capabilities=bedrock_capabilities(info.api.id))


_BUILDERS = {
    "responses": _responses,
    "azure": _azure,
    "copilot": _copilot,
    "chat": _chat,
    "messages": _messages,
    "gemini": _gemini,
    "converse": _converse,
}
# These know where they live, or find out from their settings.
_ADDRESSED = frozenset({"responses", "azure", "messages", "gemini", "converse"})


def _capabilities(guess: Capabilities, info: ModelInfo, facts: Facts) -> Capabilities:
    """What the catalog knows is better than what a name suggests."""
    return guess.replace(
        images="image" in info.capabilities.input if info.capabilities.input else guess.images,
        documents="pdf" in info.capabilities.input if info.capabilities.input else guess.documents,
        sampling=guess.sampling if facts.sampling is None else facts.sampling,
        reasoning_replay=guess.reasoning_replay or facts.replays_reasoning,
    )


def _compatibility(info: ModelInfo, way: Way) -> Literal["gemini", "moonshot"] | None:
    if way != "chat":
        return None
    name = info.api.id.lower()
    return "moonshot" if _MOONSHOT.search(name) else "gemini" if "gemini" in name else None


def _query(settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    given = settings.get("queryParams")
    return tuple((name, str(value)) for name, value in given.items()) if isinstance(given, dict) else ()


def _timeouts(settings: Mapping[str, Any]) -> Timeouts:
    """Milliseconds; `false` is no limit."""
    first, idle = settings.get("timeout"), settings.get("chunkTimeout")
    return Timeouts(
        first_byte=None if first is False else _seconds(first) or FIRST_BYTE_SECONDS,
        idle=_seconds(idle),
    )


def _seconds(millis: Any) -> float | None:
    return millis / 1000 if isinstance(millis, int | float) and not isinstance(millis, bool) and millis > 0 else None


_MOONSHOT = pattern(r"kimi|moonshot")
