"""Chooses a model for a turn. A requested model is never replaced silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.catalog.providers import COMPATIBLE, KNOWN, Access, Known, Unreachable, build_model
from holdfast.core.session.errors import ModelNotSelected, ModelUnavailable
from holdfast.llm import offline
from holdfast.llm.route.transport import Timeouts
from holdfast.schema.model import DEFAULT_VARIANT, ModelRef

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.config.config import Config, ProviderConfig
    from holdfast.llm.model import Model

FIRST_BYTE_SECONDS = 300.0
DEMO = "demo"
DEMO_MODELS = ("echo", "scripted")
BEDROCK = "amazon-bedrock"


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
        if (known := KNOWN.get(ref.provider_id)) is not None:
            return self._known(ref, known)
        raise ModelUnavailable(ref.provider_id, ref.id, "no such provider is configured")

    def default(self) -> ModelRef | None:
        if self._config.model:
            return parse_model(self._config.model)
        for id, provider in self._config.providers.items():
            if provider.models:
                return ModelRef(id=next(iter(provider.models)), provider_id=id)
        for known in KNOWN.values():
            if known.default_model and self._key(known):
                return ModelRef(id=known.default_model, provider_id=known.id)
        return None

    def _demo(self, ref: ModelRef) -> ResolvedModel:
        if ref.id not in DEMO_MODELS:
            raise ModelUnavailable(ref.provider_id, ref.id, f"the offline models are {', '.join(DEMO_MODELS)}")
        return self._build(ref, ref.id, COMPATIBLE, Access(DEMO, None, offline.BASE_URL, {}, Timeouts()))

    def _configured(self, ref: ModelRef, provider: ProviderConfig) -> ResolvedModel:
        model = provider.models.get(ref.id)
        if model is None and provider.models:
            names = ", ".join(sorted(provider.models)[:5])
            raise ModelUnavailable(ref.provider_id, ref.id, f"the provider has {names}")
        known = KNOWN.get(ref.provider_id)
        access = Access(
            provider_id=ref.provider_id,
            key=provider.options.api_key or (self._key(known) if known else None),
            base_url=provider.options.base_url or provider.api,
            headers=provider.options.headers,
            timeouts=_timeouts(provider),
        )
        package = provider.npm or (known.package if known else COMPATIBLE)
        return self._build(ref, (model.id if model else None) or ref.id, package, access)

    def _known(self, ref: ModelRef, known: Known) -> ResolvedModel:
        key = self._key(known)
        if not key and known.id != BEDROCK:  # which has other credentials than a key
            raise ModelUnavailable(ref.provider_id, ref.id, f"{' or '.join(known.key_variables)} is not set")
        access = Access(known.id, key, None, {}, Timeouts(first_byte=FIRST_BYTE_SECONDS))
        return self._build(ref, ref.id, known.package, access)

    def _build(self, ref: ModelRef, api_id: str, package: str, access: Access) -> ResolvedModel:
        try:
            return ResolvedModel(ref, build_model(package, api_id, access, self._environment))
        except Unreachable as error:
            raise ModelUnavailable(ref.provider_id, ref.id, str(error)) from error

    def _key(self, known: Known) -> str | None:
        return next((value for name in known.key_variables if (value := self._environment.get(name))), None)


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
