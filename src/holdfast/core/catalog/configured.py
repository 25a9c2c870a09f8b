"""Applies configured providers, models and integrations to the catalog, document by document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.catalog.redirects import foreign_origin, without_addresses
from holdfast.core.config import schema
from holdfast.core.config.model import parse_model
from holdfast.llm.model import deep_merge
from holdfast.schema.agent import ProviderRequest
from holdfast.schema.catalog import (
    AisdkApi,
    AisdkModelApi,
    CacheCost,
    CostTier,
    EnvMethod,
    KeyMethod,
    ModelCapabilities,
    ModelCost,
    ModelInfo,
    ModelRequest,
    ModelVariant,
    NativeApi,
    NativeModelApi,
    ProviderInfo,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.catalog.draft import CatalogDraft
    from holdfast.core.config.document import Document
    from holdfast.core.credential.integration import IntegrationDraft
    from holdfast.schema.catalog import ModelApi, ProviderApi


def configure(
    draft: CatalogDraft,
    documents: Sequence[Document],
    refused: Callable[[Document, str, str], None] = lambda document, id, origin: None,
) -> None:
    """Apply the documents, lowest priority first; each changes the result of those before it. `refused` is told of
    providers that a project would send to another host, and of the host; that does not count."""
    of_projects: set[str] = set()
    for document in documents:
        for id, patch in _providers(document):
            if document.origin == "project":
                known = draft.providers.get(id)
                if known is None:
                    of_projects.add(id)
                elif id not in of_projects and (origin := foreign_origin(known, patch)) is not None:
                    refused(document, id, origin)
                    patch = without_addresses(patch)
            draft.providers.update(id, lambda provider, patch=patch: _provider(provider, patch))  # type: ignore[misc]
            for model_id, change in (patch.models or {}).items():
                draft.models.update(id, model_id, lambda model, change=change: _model(model, change))  # type: ignore[misc]
        if isinstance(chosen := document.data.get("model"), str):
            draft.default = parse_model(chosen)


def configure_integrations(draft: IntegrationDraft, documents: Sequence[Document]) -> None:
    """`env` creates an integration; `name` alone renames an existing one."""
    for document in documents:
        for id, patch in _providers(document):
            if patch.env:
                draft.add(id, KeyMethod(), patch.name)
                draft.add(id, EnvMethod(names=tuple(patch.env)))
            elif patch.name:
                draft.rename(id, patch.name)


def _providers(document: Document) -> Iterator[tuple[str, schema.Provider]]:
    for id, entry in document.data.get("providers", {}).items():
        yield id, msgspec.convert(entry, schema.Provider)


def _provider(provider: ProviderInfo, patch: schema.Provider) -> ProviderInfo:
    return msgspec.structs.replace(
        provider,
        name=patch.name or provider.name,
        api=_provider_api(patch.api) if patch.api else provider.api,
        request=ProviderRequest(
            headers={**provider.request.headers, **_headers(patch.request)},
            body=deep_merge(provider.request.body, _body(patch.request)),
        ),
    )


def _provider_api(api: schema.AiSdkApi | schema.NativeApi) -> ProviderApi:
    if isinstance(api, schema.AiSdkApi):
        return AisdkApi(package=api.package, url=api.url, settings=api.settings)
    return NativeApi(url=api.url, settings=api.settings or {})


def _model(model: ModelInfo, patch: schema.Model) -> ModelInfo:
    request = patch.request
    return msgspec.structs.replace(
        model,
        family=patch.family or model.family,
        name=patch.name or model.name,
        api=_model_api(model.api, patch.api) if patch.api else model.api,
        capabilities=_capabilities(model.capabilities, patch.capabilities)
        if patch.capabilities
        else model.capabilities,
        request=ModelRequest(
            headers={**model.request.headers, **_headers(request)},
            body=deep_merge(model.request.body, _body(request)),
            variant=(request.variant if request else None) or model.request.variant,
        ),
        variants=_variants(model.variants, patch.variants or ()),
        cost=model.cost if patch.cost is None else _costs(patch.cost),
        enabled=model.enabled if patch.disabled is None else not patch.disabled,
        limit=msgspec.structs.replace(model.limit, **_given(patch.limit)),
    )


def _model_api(known: ModelApi, patch: schema.ModelApi) -> ModelApi:
    """Merges the patch into the known API, which may have the other type."""
    package = patch.package or (known.package if isinstance(known, AisdkModelApi) else None)
    kind = patch.type or ("aisdk" if package else "native")
    id, url = patch.id or known.id, patch.url or known.url
    settings = {**(known.settings or {}), **(patch.settings or {})}
    if kind == "aisdk" and package:
        return AisdkModelApi(id=id, package=package, url=url, settings=settings or None)
    return NativeModelApi(id=id, url=url, settings=settings)


def _capabilities(known: ModelCapabilities, patch: schema.Capabilities) -> ModelCapabilities:
    """The patch replaces all but `structured`, which stands for itself."""
    structured = known.structured if patch.structured is None else patch.structured
    if (patch.tools, patch.input, patch.output) == (None, None, None):
        return msgspec.structs.replace(known, structured=structured)
    return ModelCapabilities(
        tools=bool(patch.tools),
        input=tuple(patch.input or ()),
        output=tuple(patch.output or ()),
        structured=structured,
    )


def _variants(known: tuple[ModelVariant, ...], patches: Sequence[schema.Variant]) -> tuple[ModelVariant, ...]:
    merged = {variant.id: variant for variant in known}
    for patch in patches:
        old = merged.get(patch.id) or ModelVariant(id=patch.id, headers={}, body={})
        merged[patch.id] = ModelVariant(
            id=patch.id, headers={**old.headers, **_headers(patch)}, body=deep_merge(old.body, _body(patch))
        )
    return tuple(merged.values())


def _costs(given: schema.Cost | list[schema.Cost]) -> tuple[ModelCost, ...]:
    return tuple(
        ModelCost(
            tier=CostTier(type=cost.tier.type, size=cost.tier.size) if cost.tier else None,
            input=cost.input,
            output=cost.output,
            cache=CacheCost(
                read=(cost.cache and cost.cache.read) or 0.0, write=(cost.cache and cost.cache.write) or 0.0
            ),
        )
        for cost in (given if isinstance(given, list) else [given])
    )


def _given(section: schema.Limit | None) -> dict[str, Any]:
    if section is None:
        return {}
    return {name: value for name, value in msgspec.structs.asdict(section).items() if value is not None}


def _headers(request: schema.Request | None) -> dict[str, str]:
    return (request.headers if request else None) or {}


def _body(request: schema.Request | None) -> dict[str, Any]:
    return (request.body if request else None) or {}
