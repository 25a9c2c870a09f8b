"""Converts models.dev records to catalog records."""

from __future__ import annotations

import logging
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.catalog.dev_record import UNDECODABLE, DevCost, DevMode, DevModel, DevPrice, decoder
from holdfast.core.catalog.draft import NO_FACTS, ModelFacts, ProviderEntry, new_provider
from holdfast.schema.catalog import (
    AisdkApi,
    AisdkModelApi,
    CacheCost,
    CostTier,
    ModelCapabilities,
    ModelCost,
    ModelInfo,
    ModelLimit,
    ModelRequest,
    ModelTime,
    NativeApi,
    NativeModelApi,
)
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.catalog.dev_record import DevProvider
    from holdfast.core.catalog.draft import LazyModel
    from holdfast.schema.catalog import ModelApi

LONG_CONTEXT = 200_000
EPOCH = date(1970, 1, 1)
REST_OF_DATE = {4: "-01-01", 7: "-01"}

log = logging.getLogger(__name__)


def provider_entries(providers: Mapping[str, DevProvider]) -> dict[str, ProviderEntry]:
    return {id: _provider_entry(id, provider) for id, provider in providers.items()}


def _provider_entry(id: str, provider: DevProvider) -> ProviderEntry:
    api = AisdkApi(package=provider.npm, url=provider.api) if provider.npm else NativeApi(url=provider.api, settings={})
    info = msgspec.structs.replace(new_provider(id), name=provider.name or id, api=api)
    lazy: dict[str, LazyModel] = {}
    for model_id, raw in provider.models.items():
        model = lazy[model_id] = _LazyDevModel(id, model_id, raw)
        if b'"modes"' in bytes(raw):
            lazy |= {f"{model_id}-{mode}": _LazyDevMode(model, mode) for mode in model.modes()}
    return ProviderEntry(info, lazy)


class _LazyDevModel:
    __slots__ = ("_facts", "_info", "_modes", "_raw", "id", "provider_id")

    def __init__(self, provider_id: str, id: str, raw: msgspec.Raw) -> None:
        self.provider_id = provider_id
        self.id = id
        self._raw: msgspec.Raw | None = raw
        self._info: ModelInfo | None = None
        self._facts = NO_FACTS
        self._modes: Mapping[str, DevMode] = {}

    def load(self) -> ModelInfo | None:
        self._decode()
        return self._info

    def facts(self) -> ModelFacts:
        self._decode()
        return self._facts

    def modes(self) -> Mapping[str, DevMode]:
        self._decode()
        return self._modes

    def _decode(self) -> None:
        """Decode once and keep only what is needed, because there are thousands of models."""
        if self._raw is None:
            return
        try:
            model = decoder(DevModel).decode(self._raw)
        except UNDECODABLE as error:
            log.warning("models.dev: model %s/%s dropped: %s", self.provider_id, self.id, error)
        else:
            self._info = _info(self.provider_id, self.id, model)
            self._facts = ModelFacts(model.temperature, bool(model.interleaved), model.reasoning_options)
            self._modes = model.experimental.modes
        self._raw = None


class _LazyDevMode(Frozen):
    """A mode of a model, listed as a separate model."""

    base: _LazyDevModel
    mode: str

    def load(self) -> ModelInfo | None:
        info = self.base.load()
        if info is None:
            return None
        mode = self.base.modes()[self.mode]
        return msgspec.structs.replace(
            info,
            id=f"{info.id}-{self.mode}",
            name=f"{info.name} {self.mode[:1].upper()}{self.mode[1:]}",
            request=ModelRequest(
                headers={**info.request.headers, **mode.provider.headers},
                body={**info.request.body, **mode.provider.body},
            ),
            cost=_merged(info.cost, _costs(mode.cost)) if mode.cost else info.cost,
        )

    def facts(self) -> ModelFacts:
        return self.base.facts()


def _info(provider_id: str, id: str, model: DevModel) -> ModelInfo:
    limit = model.limit
    return ModelInfo(
        id=id,
        provider_id=provider_id,
        family=model.family,
        name=model.name or id,
        api=_api(id, model),
        capabilities=ModelCapabilities(
            tools=model.tool_call,
            input=model.modalities.input,
            output=model.modalities.output,
            structured=model.structured_output,
        ),
        request=ModelRequest(
            headers={**model.headers, **model.provider.headers}, body={**model.options, **model.provider.body}
        ),
        variants=(),
        time=ModelTime(released=_milliseconds(model.release_date)),
        cost=_costs(model.cost) if model.cost else (),
        status=model.status,
        enabled=True,
        limit=ModelLimit(context=limit.context, input=limit.input, output=limit.output),
    )


def _api(id: str, model: DevModel) -> ModelApi:
    if model.provider.npm:
        return AisdkModelApi(id=id, package=model.provider.npm, url=model.provider.api)
    return NativeModelApi(id=id, url=model.provider.api, settings={})


def _costs(cost: DevCost) -> tuple[ModelCost, ...]:
    tiers = [_cost(tier, tier.tier.size) for tier in cost.tiers]
    if cost.context_over_200k is not None:
        tiers.append(_cost(cost.context_over_200k, LONG_CONTEXT))
    return (_cost(cost), *tiers)


def _cost(price: DevPrice, size: int | None = None) -> ModelCost:
    return ModelCost(
        tier=CostTier(type="context", size=size) if size is not None else None,
        input=price.input,
        output=price.output,
        cache=CacheCost(read=price.cache_read, write=price.cache_write),
    )


def _merged(base: tuple[ModelCost, ...], own: tuple[ModelCost, ...]) -> tuple[ModelCost, ...]:
    """A mode's price replaces that of the same tier."""
    return tuple({cost.tier and cost.tier.size: cost for cost in (*base, *own)}.values())


@lru_cache(maxsize=4096)
def _milliseconds(day: str) -> int:
    """The start of a day, month or year in Unix milliseconds; 0 for any other text."""
    try:
        released = date.fromisoformat(day + REST_OF_DATE.get(len(day), ""))
    except ValueError:
        return 0
    return (released - EPOCH).days * 24 * 3600 * 1000
