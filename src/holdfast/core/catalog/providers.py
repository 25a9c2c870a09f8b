"""Providers that can be used with nothing but a key, and the way from a configured package to a model.

A protocol is imported when one of its models is asked for, which keeps the start quick."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.llm.model import Capabilities, Model
from holdfast.llm.providers.profiles import PROFILES
from holdfast.llm.route.auth import KeyAuth, NoAuth
from holdfast.llm.route.route import Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.llm.route.transport import Timeouts

COMPATIBLE = "@ai-sdk/openai-compatible"


class Known(NamedTuple):
    id: str
    package: str
    key_variables: tuple[str, ...]
    default_model: str | None = None
    """Used when only a key is known."""


KNOWN: dict[str, Known] = {
    known.id: known
    for known in (
        Known("anthropic", "@ai-sdk/anthropic", ("ANTHROPIC_API_KEY",), "claude-sonnet-4-5"),
        Known("openai", "@ai-sdk/openai", ("OPENAI_API_KEY",), "gpt-5-mini"),
        Known("google", "@ai-sdk/google", ("GOOGLE_GENERATIVE_AI_API_KEY",), "gemini-2.5-flash"),
        Known("amazon-bedrock", "@ai-sdk/amazon-bedrock", ("AWS_BEARER_TOKEN_BEDROCK",)),
        *(
            Known(profile.id, COMPATIBLE, profile.key_variables, profile.default_model)
            for profile in PROFILES.values()
            if profile.key_variables
        ),
    )
}


class Access(NamedTuple):
    """How a provider is reached, as far as configuration and environment say."""

    provider_id: str
    key: str | None
    base_url: str | None
    headers: dict[str, str]
    timeouts: Timeouts


class Unreachable(Exception):
    """Configuration does not say enough to use a model."""


def build_model(package: str, model_id: str, access: Access, environment: Mapping[str, str]) -> Model:
    match package:
        case "@ai-sdk/openai-compatible":
            return _compatible(model_id, access)
        case "@ai-sdk/openai":
            return _openai(model_id, access)
        case "@ai-sdk/anthropic":
            return _anthropic(model_id, access)
        case "@ai-sdk/google":
            return _google(model_id, access)
        case "@ai-sdk/amazon-bedrock":
            return _bedrock(model_id, access, environment)
        case _:
            raise Unreachable(f"{package} is not supported")


def _compatible(model_id: str, access: Access) -> Model:
    from holdfast.llm.protocols.openai_chat import OpenAIChat

    profile = PROFILES.get(access.provider_id)
    base_url = access.base_url or (profile.base_url if profile else None)
    if base_url is None:
        raise Unreachable("its provider has no options.baseURL")
    route = Route(
        access.provider_id,
        profile.protocol if profile else OpenAIChat(),
        base_url,
        auth=KeyAuth(access.key) if access.key else NoAuth(),
        headers=tuple(access.headers.items()),
        timeouts=access.timeouts,
    )
    capabilities = profile.capabilities if profile else Capabilities()
    return Model(model_id, access.provider_id, route, capabilities=capabilities)


def _openai(model_id: str, access: Access) -> Model:
    from holdfast.llm.providers.openai import BASE_URL, openai_model

    return openai_model(
        model_id,
        access.key,
        base_url=access.base_url or BASE_URL,
        headers=access.headers,
        timeouts=access.timeouts,
    )


def _anthropic(model_id: str, access: Access) -> Model:
    from holdfast.llm.providers.anthropic import BASE_URL, anthropic_capabilities, anthropic_route

    route = anthropic_route(
        access.key,
        id=access.provider_id,
        base_url=access.base_url or BASE_URL,
        headers=access.headers,
        timeouts=access.timeouts,
    )
    return Model(model_id, access.provider_id, route, capabilities=anthropic_capabilities(model_id))


def _google(model_id: str, access: Access) -> Model:
    from holdfast.llm.providers.google import BASE_URL, google_route

    route = google_route(
        access.key,
        id=access.provider_id,
        base_url=access.base_url or BASE_URL,
        headers=access.headers,
        timeouts=access.timeouts,
    )
    return Model(model_id, access.provider_id, route)


def _bedrock(model_id: str, access: Access, environment: Mapping[str, str]) -> Model:
    from holdfast.llm.providers.amazon import bedrock_capabilities, bedrock_route

    route = bedrock_route(
        access.key,
        environment=environment,
        id=access.provider_id,
        base_url=access.base_url,
        headers=access.headers,
        timeouts=access.timeouts,
    )
    return Model(model_id, access.provider_id, route, capabilities=bedrock_capabilities(model_id))
