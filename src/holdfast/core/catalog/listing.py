"""Models as they are used and shown: with what they inherit from their provider, and with the variants that follow from
what they can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.catalog.draft import inherited_api, inherited_request
from holdfast.core.catalog.public import public
from holdfast.core.catalog.variants import with_generated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.catalog.draft import Shelf
    from holdfast.schema.catalog import ModelInfo, ProviderInfo


def complete(shelf: Shelf, model: ModelInfo) -> ModelInfo:
    return _complete(shelf.provider, model, shelf)


def public_model(shelf: Shelf, model: ModelInfo, secrets: frozenset[str]) -> ModelInfo:
    return public(complete(shelf, model), secrets)


def public_models(shelf: Shelf, secrets: frozenset[str]) -> Iterator[ModelInfo]:
    """The enabled ones. Most have nothing to hide but what they inherit, which is looked through once for all."""
    provider = public(shelf.provider, secrets)
    for model in shelf.all():
        if model.enabled:
            plain = public(model, secrets) is model
            yield _complete(provider, model, shelf) if plain else public_model(shelf, model, secrets)


def _complete(provider: ProviderInfo, model: ModelInfo, shelf: Shelf) -> ModelInfo:
    api = inherited_api(provider, model.api)
    return msgspec.structs.replace(
        model,
        api=api,
        request=inherited_request(provider, model.request),
        variants=with_generated(model, api, shelf.facts(model.id)),
    )
