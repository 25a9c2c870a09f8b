"""Chooses a model for a turn. A requested model is never replaced silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.session.errors import ModelNotSelected, ModelUnavailable
from holdfast.llm import offline
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.providers.compatible import KNOWN, Compatible
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import Timeouts
from holdfast.schema.model import DEFAULT_VARIANT, ModelRef

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.config.config import Config, ProviderConfig

FIRST_BYTE_SECONDS = 300.0
DEMO = "demo"
DEMO_MODELS = ("echo", "scripted")
COMPATIBLE_PACKAGES = ("@ai-sdk/openai-compatible", "@ai-sdk/openai")


class ResolvedModel(NamedTuple):
    ref: ModelRef
    api_id: str
    route: Route


class Catalog:
    """The models of one Location: from its configuration, from keys in the environment, and the offline ones."""

    def __init__(self, config: Config, environment: Mapping[str, str]) -> None:
        self._config = config
        self._environment = environment

    def resolve(self, session_id: str, chosen: ModelRef | None) -> ResolvedModel:
        """The Session's model, else the configured one, else the first provider with a key."""
        ref = chosen or self.default()
        if ref is None:
            raise ModelNotSelected(session_id)
        if ref.variant not in (None, DEFAULT_VARIANT):
            raise ModelUnavailable(ref.provider_id, ref.id, f"it has no variant {ref.variant}")
        if ref.provider_id == DEMO:
            return self._demo(ref)
        if (configured := self._config.providers.get(ref.provider_id)) is not None:
            return self._configured(ref, configured)
        for known in KNOWN:
            if known.id == ref.provider_id:
                return self._known(ref, known)
        raise ModelUnavailable(ref.provider_id, ref.id, "no such provider is configured")

    def default(self) -> ModelRef | None:
        if self._config.model:
            return parse_model(self._config.model)
        for id, provider in self._config.providers.items():
            if provider.models:
                return ModelRef(id=next(iter(provider.models)), provider_id=id)
        for known in KNOWN:
            if self._environment.get(known.key_variable):
                return ModelRef(id=known.default_model, provider_id=known.id)
        return None

    def _demo(self, ref: ModelRef) -> ResolvedModel:
        if ref.id not in DEMO_MODELS:
            raise ModelUnavailable(ref.provider_id, ref.id, f"the offline models are {', '.join(DEMO_MODELS)}")
        return ResolvedModel(ref, ref.id, Route(OpenAIChat(), offline.BASE_URL))

    def _configured(self, ref: ModelRef, provider: ProviderConfig) -> ResolvedModel:
        if provider.npm is not None and provider.npm not in COMPATIBLE_PACKAGES:
            raise ModelUnavailable(ref.provider_id, ref.id, f"{provider.npm} is not supported yet")
        model = provider.models.get(ref.id)
        if model is None and provider.models:
            known = ", ".join(sorted(provider.models)[:5])
            raise ModelUnavailable(ref.provider_id, ref.id, f"the provider has {known}")
        known_provider = next((known for known in KNOWN if known.id == ref.provider_id), None)
        base_url = provider.options.base_url or provider.api or (known_provider.base_url if known_provider else None)
        if base_url is None:
            raise ModelUnavailable(ref.provider_id, ref.id, "its provider has no options.baseURL")
        secret = provider.options.api_key or (
            self._environment.get(known_provider.key_variable) if known_provider else None
        )
        route = Route(
            OpenAIChat(),
            base_url,
            headers=tuple(provider.options.headers.items()),
            secret=secret,
            timeouts=_timeouts(provider),
        )
        return ResolvedModel(ref, (model.id if model else None) or ref.id, route)

    def _known(self, ref: ModelRef, known: Compatible) -> ResolvedModel:
        secret = self._environment.get(known.key_variable)
        if not secret:
            raise ModelUnavailable(ref.provider_id, ref.id, f"{known.key_variable} is not set")
        timeouts = Timeouts(first_byte=FIRST_BYTE_SECONDS)
        return ResolvedModel(ref, ref.id, Route(OpenAIChat(), known.base_url, secret=secret, timeouts=timeouts))


def parse_model(text: str) -> ModelRef:
    """`provider/model`; the model's own id may contain slashes."""
    provider, _, model = text.partition("/")
    return ModelRef(id=model, provider_id=provider)


def _timeouts(provider: ProviderConfig) -> Timeouts:
    chosen = provider.options.timeout
    if chosen is False:
        return Timeouts()
    if chosen is None or chosen is True:
        return Timeouts(first_byte=FIRST_BYTE_SECONDS)
    return Timeouts(first_byte=chosen / 1000)
