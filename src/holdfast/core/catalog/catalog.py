"""Chooses a model for a turn. A requested model is never replaced silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.session.errors import ModelNotSelected, ModelUnavailable
from holdfast.llm import offline
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.providers.profiles import PROFILES, Profile
from holdfast.llm.route.auth import KeyAuth, NoAuth
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import Timeouts
from holdfast.schema.model import DEFAULT_VARIANT, ModelRef

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.config.config import Config, ProviderConfig

FIRST_BYTE_SECONDS = 300.0
DEMO = "demo"
DEMO_MODELS = ("echo", "scripted")
KNOWN = {
    "openai": Profile("openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",), "gpt-4.1-mini"),
    **{id: profile for id, profile in PROFILES.items() if profile.key_variables},
}
COMPATIBLE_PACKAGES = ("@ai-sdk/openai-compatible", "@ai-sdk/openai")


class ResolvedModel(NamedTuple):
    ref: ModelRef
    model: Model


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
        if (profile := KNOWN.get(ref.provider_id)) is not None:
            return self._known(ref, profile)
        raise ModelUnavailable(ref.provider_id, ref.id, "no such provider is configured")

    def default(self) -> ModelRef | None:
        if self._config.model:
            return parse_model(self._config.model)
        for id, provider in self._config.providers.items():
            if provider.models:
                return ModelRef(id=next(iter(provider.models)), provider_id=id)
        for profile in KNOWN.values():
            if profile.default_model and self._key(profile):
                return ModelRef(id=profile.default_model, provider_id=profile.id)
        return None

    def _demo(self, ref: ModelRef) -> ResolvedModel:
        if ref.id not in DEMO_MODELS:
            raise ModelUnavailable(ref.provider_id, ref.id, f"the offline models are {', '.join(DEMO_MODELS)}")
        return _resolved(ref, ref.id, Route("demo", OpenAIChat(), offline.BASE_URL))

    def _configured(self, ref: ModelRef, provider: ProviderConfig) -> ResolvedModel:
        if provider.npm is not None and provider.npm not in COMPATIBLE_PACKAGES:
            raise ModelUnavailable(ref.provider_id, ref.id, f"{provider.npm} is not supported yet")
        model = provider.models.get(ref.id)
        if model is None and provider.models:
            known = ", ".join(sorted(provider.models)[:5])
            raise ModelUnavailable(ref.provider_id, ref.id, f"the provider has {known}")
        profile = KNOWN.get(ref.provider_id)
        base_url = provider.options.base_url or provider.api or (profile.base_url if profile else None)
        if base_url is None:
            raise ModelUnavailable(ref.provider_id, ref.id, "its provider has no options.baseURL")
        key = provider.options.api_key or (self._key(profile) if profile else None)
        route = Route(
            ref.provider_id,
            profile.protocol if profile else OpenAIChat(),
            base_url,
            auth=KeyAuth(key) if key else NoAuth(),
            headers=tuple(provider.options.headers.items()),
            timeouts=_timeouts(provider),
        )
        return _resolved(ref, (model.id if model else None) or ref.id, route)

    def _known(self, ref: ModelRef, profile: Profile) -> ResolvedModel:
        key = self._key(profile)
        if not key:
            raise ModelUnavailable(ref.provider_id, ref.id, f"{' or '.join(profile.key_variables)} is not set")
        timeouts = Timeouts(first_byte=FIRST_BYTE_SECONDS)
        return _resolved(
            ref, ref.id, Route(profile.id, profile.protocol, profile.base_url, auth=KeyAuth(key), timeouts=timeouts)
        )

    def _key(self, profile: Profile) -> str | None:
        return next((value for name in profile.key_variables if (value := self._environment.get(name))), None)


def _resolved(ref: ModelRef, api_id: str, route: Route) -> ResolvedModel:
    profile = KNOWN.get(ref.provider_id)
    capabilities = profile.capabilities if profile else Capabilities()
    return ResolvedModel(ref, Model(api_id, ref.provider_id, route, capabilities=capabilities))


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
