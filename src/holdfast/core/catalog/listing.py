"""Models with the settings inherited from their provider and with generated variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.catalog.draft import inherited_api, inherited_request
from holdfast.core.catalog.public import public
from holdfast.core.catalog.variants import with_generated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.catalog.draft import ProviderEntry
    from holdfast.schema.catalog import ModelInfo, ProviderInfo


def with_inherited(entry: ProviderEntry, model: ModelInfo) -> ModelInfo:
    return _with_inherited(entry.provider, model, entry)


def public_model(entry: ProviderEntry, model: ModelInfo, secrets: frozenset[str]) -> ModelInfo:
    return public(with_inherited(entry, model), secrets)


def public_models(entry: ProviderEntry, secrets: frozenset[str]) -> Iterator[ModelInfo]:
    """The enabled models, without secrets. Usually only the provider has secrets, so it is redacted once for all
    models."""
    provider = public(entry.provider, secrets)
    for model in entry.all():
        if model.enabled:
            plain = public(model, secrets) is model
            yield _with_inherited(provider, model, entry) if plain else public_model(entry, model, secrets)


def _with_inherited(provider: ProviderInfo, model: ModelInfo, entry: ProviderEntry) -> ModelInfo:
    api = inherited_api(provider, model.api)
    return msgspec.structs.replace(
        model,
        api=api,
        request=inherited_request(provider, model.request),
        variants=with_generated(model, api, entry.facts(model.id)),
    )
