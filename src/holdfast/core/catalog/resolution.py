"""Resolves a catalog entry to a model that can be called: merges its layers and finds its credential."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from holdfast.core.catalog import packages
from holdfast.core.catalog.errors import VariantUnavailable
from holdfast.core.catalog.fixes import credential_fix
from holdfast.core.catalog.options import Overlay, merge, partition
from holdfast.core.catalog.resolved import ResolvedModel
from holdfast.core.catalog.routes import RouteCredential, RouteSettings, route
from holdfast.core.credential.store import KeyValue
from holdfast.schema.frozen import Frozen
from holdfast.schema.model import DEFAULT_VARIANT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.catalog.draft import ModelFacts
    from holdfast.core.catalog.packages import Dialect
    from holdfast.core.credential.integration import Integration
    from holdfast.core.credential.integrations import Variable
    from holdfast.core.credential.store import Credential
    from holdfast.llm.route.auth import Auth
    from holdfast.schema.agent import Agent
    from holdfast.schema.catalog import ModelInfo, ModelVariant, ProviderInfo
    from holdfast.schema.model import ModelRef


class CredentialSource(Protocol):
    """Provides credentials; implemented by the Location's integrations."""

    def stored(self, id: str) -> Credential | None: ...

    def variable(self, id: str) -> Variable | None: ...

    def auth(self, credential: Credential) -> Auth: ...

    def find(self, id: str) -> Integration | None: ...


class _NoCredentials:
    def stored(self, id: str) -> None:
        return None

    def variable(self, id: str) -> None:
        return None

    def auth(self, credential: Credential) -> Auth:
        raise AssertionError("there is no credential")

    def find(self, id: str) -> None:
        return None


NO_CREDENTIALS: CredentialSource = _NoCredentials()


class ModelEntry(Frozen):
    """`model` is the stored record; `info` includes inherited settings and generated variants."""

    provider: ProviderInfo
    model: ModelInfo
    info: ModelInfo
    facts: ModelFacts


class Resolution(Frozen):
    resolved: ResolvedModel
    problems: tuple[str, ...]


def resolve_entry(
    ref: ModelRef, entry: ModelEntry, agent: Agent | None, source: CredentialSource, environment: Mapping[str, str]
) -> Resolution:
    """Raises VariantUnavailable and UnsupportedApi."""
    provider, stored, info = entry.provider, entry.model, entry.info
    variant = _variant(ref, info)
    dialect, above = packages.dialect(info.api), packages.dialect(provider.api)
    if above is packages.UNKNOWN:
        above = dialect
    low = partition(provider.request.body, above, provider.request.headers, provider=True)
    own = partition(stored.request.body, dialect, stored.request.headers)
    settings = {**(info.api.settings or {}), **low.settings, **own.settings}
    credentials, metadata = _credentials(provider, settings, dialect, source)
    layers = [low, partition(metadata, dialect), own]
    if variant is not None:
        layers.append(partition(variant.body, dialect, variant.headers))
    if agent is not None:
        layers.append(partition(agent.request.body, dialect, agent.request.headers))
    model = route(info, RouteSettings(credentials, settings, environment, entry.facts))
    defaults = (Overlay(options=options or {}) for options in (model.route.provider_options, model.provider_options))
    resolved = ResolvedModel(
        ref=ref,
        model=model.replace(
            provider_options=None,
            route=model.route.replace(provider_options=None),
            credential_fix=credential_fix(provider, settings, dialect, source),
        ),
        info=info,
        variant=variant.id if variant else None,
        layers=merge(*defaults, *(layer.overlay for layer in layers)),
    )
    return Resolution(resolved, tuple(problem for layer in layers for problem in layer.problems))


def _variant(ref: ModelRef, info: ModelInfo) -> ModelVariant | None:
    named = ref.variant if ref.variant != DEFAULT_VARIANT else None
    wanted = named or info.request.variant
    found = next((variant for variant in info.variants if variant.id == wanted), None)
    if named and found is None:
        raise VariantUnavailable(ref.provider_id, ref.id, named, tuple(variant.id for variant in info.variants))
    return found


def _credentials(
    provider: ProviderInfo, settings: Mapping[str, Any], dialect: Dialect, source: CredentialSource
) -> tuple[RouteCredential, Mapping[str, Any]]:
    """The stored credential, else the configured one, else that of the environment; and fields to send with it."""
    integration = provider.integration_id or provider.id
    if (stored := source.stored(integration)) is not None:
        if isinstance(stored.value, KeyValue):
            return RouteCredential(key=stored.value.key), stored.value.metadata or {}
        return RouteCredential(oauth=source.auth(stored)), {}
    if isinstance(key := settings.get("apiKey"), str) and key:
        return RouteCredential(key=key), {}
    if isinstance(token := settings.get("authToken"), str) and token:
        return RouteCredential(bearer=token), {}
    if dialect is packages.BEDROCK:
        return RouteCredential(), {}  # AWS finds its own credentials
    variable = source.variable(integration)
    return RouteCredential(key=variable.key if variable else None), {}
