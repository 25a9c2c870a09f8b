"""Builds the route of a catalog model: protocol, address, credential and limits.

A protocol is imported when one of its models is used, to keep start-up fast."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.catalog import packages
from holdfast.core.catalog.errors import UnsupportedApi
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.route.auth import BoundAuth, KeyAuth, NoAuth, origin_of
from holdfast.llm.route.transport import Timeouts
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.catalog.draft import ModelFacts
    from holdfast.core.catalog.packages import ProtocolName
    from holdfast.llm.route.auth import Auth
    from holdfast.llm.route.route import Route
    from holdfast.schema.catalog import ModelApi, ModelInfo

FIRST_BYTE_SECONDS = 300.0
# The header that each protocol expects the key in; others expect a bearer token.
_KEY_HEADERS: dict[ProtocolName, str] = {"messages": "x-api-key", "gemini": "x-goog-api-key", "azure": "api-key"}


class RouteCredential(Frozen):
    """At most one is set. `bearer` is sent as a token even if the protocol expects a key header."""

    key: str | None = None
    bearer: str | None = None
    oauth: Auth | None = None

    def __repr__(self) -> str:
        return "Credentials(…)"


class RouteSettings(Frozen):
    credentials: RouteCredential
    settings: Mapping[str, Any]
    environment: Mapping[str, str]
    facts: ModelFacts


def is_supported(api: ModelApi) -> bool:
    found = packages.package_endpoint(api)
    if found is None or found.package.protocol is None:
        return False
    return bool(found.url) or found.package.protocol in _ADDRESSED


def route(info: ModelInfo, given: RouteSettings) -> Model:
    """`info` includes inherited settings. Raises UnsupportedApi."""
    found = packages.package_endpoint(info.api)
    if found is None or found.package.protocol is None:
        raise UnsupportedApi(info.provider_id, info.id, packages.api_label(info.api))
    protocol = found.package.protocol
    if not found.url and protocol not in _ADDRESSED:
        reason = "its provider has no address; give options.baseURL"
        raise UnsupportedApi(info.provider_id, info.id, packages.api_label(info.api), reason)
    model = _BUILDERS[protocol](info, found, given)
    auth = _auth(protocol, given.credentials) or (model.route.auth if protocol == "converse" else NoAuth())
    chosen = model.route.replace(
        auth=_bound(auth, model.route),
        query=(*model.route.query, *_query(given.settings)),
        timeouts=_timeouts(given.settings),
    )
    return model.replace(
        provider=info.provider_id,
        route=chosen,
        output_limit=info.limit.output or None,
        compatibility=_compatibility(info, protocol),
        capabilities=_capabilities(model.capabilities, info, given.facts),
    )


def _bound(auth: Auth, to: Route) -> Auth:
    """Binds the credential to the resolved address: a later change of the request cannot send it elsewhere."""
    return auth if isinstance(auth, NoAuth) else BoundAuth(auth, origin_of(to.base_url))


def _auth(protocol: ProtocolName, credentials: RouteCredential) -> Auth | None:
    if credentials.oauth is not None:
        return credentials.oauth
    if credentials.bearer is not None:
        return KeyAuth(credentials.bearer)
    if credentials.key is None:
        return None
    header = _KEY_HEADERS.get(protocol)
    return KeyAuth(credentials.key, header, "") if header else KeyAuth(credentials.key)


def _responses(info: ModelInfo, found: packages.PackageEndpoint, given: RouteSettings) -> Model:
    from holdfast.llm.providers.openai import BASE_URL, openai_model

    return openai_model(info.api.id, None, base_url=found.url or BASE_URL)


def _azure(info: ModelInfo, found: packages.PackageEndpoint, given: RouteSettings) -> Model:
    from holdfast.llm.providers.gateways import azure_model

    resource, version = given.settings.get("resourceName"), given.settings.get("apiVersion")
    if not found.url and not resource:
        reason = "set AZURE_RESOURCE_NAME, options.resourceName or options.baseURL"
        raise UnsupportedApi(info.provider_id, info.id, packages.api_label(info.api), reason)
    return azure_model(
        info.api.id,
        None,
        resource=resource,
        base_url=found.url,
        api_version=str(version or "v1"),
        use_completion_urls=given.settings.get("useCompletionUrls") is True,
    )


def _copilot(info: ModelInfo, found: packages.PackageEndpoint, given: RouteSettings) -> Model:
    from holdfast.llm.providers.gateways import copilot_model

    return copilot_model(info.api.id, None, found.url)


def _chat(info: ModelInfo, found: packages.PackageEndpoint, given: RouteSettings) -> Model:
    from holdfast.llm.protocols.openai_chat import OpenAIChat
    from holdfast.llm.providers.profiles import PROFILES
    from holdfast.llm.route.route import Route

    profile = PROFILES.get(info.provider_id)
    spoken = PROFILES["openrouter"].protocol if found.package.dialect is packages.OPENROUTER else OpenAIChat()
    protocol = spoken.replace(passthrough=(*spoken.passthrough, "thinking"))
    capabilities = profile.capabilities if profile else Capabilities()
    return Model(
        info.api.id, info.provider_id, Route(info.provider_id, protocol, found.url or ""), capabilities=capabilities
    )


def _messages(info: ModelInfo, found: packages.PackageEndpoint, given: RouteSettings) -> Model:
    from holdfast.llm.providers.anthropic import BASE_URL, anthropic_capabilities, anthropic_route

    route = anthropic_route(None, id=info.provider_id, base_url=found.url or BASE_URL)
    return Model(info.api.id, info.provider_id, route, capabilities=anthropic_capabilities(info.api.id))


def _gemini(info: ModelInfo, found: packages.PackageEndpoint, given: RouteSettings) -> Model:
    from holdfast.llm.providers.google import BASE_URL, google_capabilities, google_route

    route = google_route(None, id=info.provider_id, base_url=found.url or BASE_URL)
    return Model(info.api.id, info.provider_id, route, capabilities=google_capabilities(info.api.id))


def _converse(info: ModelInfo, found: packages.PackageEndpoint, given: RouteSettings) -> Model:
    from holdfast.llm.providers.amazon import bedrock_capabilities, bedrock_route
    from holdfast.llm.route.sigv4 import Credentials as Signing
    from holdfast.llm.route.sigv4 import FixedCredentials

    settings = given.settings
    profile = settings.get("profile")
    environment = {**given.environment, "AWS_PROFILE": profile} if isinstance(profile, str) else given.environment
    source = None
    if settings.get("accessKeyId") and settings.get("secretAccessKey"):
        signing = Signing(settings["accessKeyId"], settings["secretAccessKey"], settings.get("sessionToken"))
        source = FixedCredentials(signing)
    route = bedrock_route(
        None,
        source=source,
        environment=environment,
        region=settings.get("region"),
        id=info.provider_id,
        base_url=found.url,
    )
    return Model(info.api.id, info.provider_id, route, capabilities=bedrock_capabilities(info.api.id))


_BUILDERS = {
    "responses": _responses,
    "azure": _azure,
    "copilot": _copilot,
    "chat": _chat,
    "messages": _messages,
    "gemini": _gemini,
    "converse": _converse,
}
# Protocols with a default address, or one derived from settings.
_ADDRESSED = frozenset({"responses", "azure", "messages", "gemini", "converse"})


def _capabilities(guess: Capabilities, info: ModelInfo, facts: ModelFacts) -> Capabilities:
    """The catalog's facts take precedence over guesses from the model's name."""
    return guess.replace(
        images="image" in info.capabilities.input if info.capabilities.input else guess.images,
        documents="pdf" in info.capabilities.input if info.capabilities.input else guess.documents,
        sampling=guess.sampling if facts.sampling is None else facts.sampling,
        reasoning_replay=guess.reasoning_replay or facts.replays_reasoning,
        native_json=guess.native_json if info.capabilities.structured is None else info.capabilities.structured,
    )


def _compatibility(info: ModelInfo, protocol: ProtocolName) -> Literal["gemini", "moonshot"] | None:
    if protocol != "chat":
        return None
    name = info.api.id.lower()
    return "moonshot" if re.search(r"kimi|moonshot", name) else "gemini" if "gemini" in name else None


def _query(settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    given = settings.get("queryParams")
    return tuple((name, str(value)) for name, value in given.items()) if isinstance(given, dict) else ()


def _timeouts(settings: Mapping[str, Any]) -> Timeouts:
    """Settings are in milliseconds; `false` means no limit."""
    first, idle = settings.get("timeout"), settings.get("chunkTimeout")
    return Timeouts(first_byte=None if first is False else _seconds(first) or FIRST_BYTE_SECONDS, idle=_seconds(idle))


def _seconds(millis: Any) -> float | None:
    return millis / 1000 if isinstance(millis, int | float) and not isinstance(millis, bool) and millis > 0 else None
