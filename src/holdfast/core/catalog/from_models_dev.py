"""From models.dev's records to the catalog's."""

from __future__ import annotations

import logging
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.catalog.dev_record import UNDECODABLE, DevCost, DevMode, DevModel, DevPrice, decoder
from holdfast.core.catalog.draft import NO_FACTS, Facts, Shelf, new_provider
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
    from holdfast.core.catalog.draft import Listed
    from holdfast.schema.catalog import ModelApi

LONG_CONTEXT = 200_000
EPOCH = date(1970, 1, 1)
REST_OF_DATE = {4: "-01-01", 7: "-01"}

log = logging.getLogger(__name__)


def shelves(providers: Mapping[str, DevProvider]) -> dict[str, Shelf]:
    return {id: _shelf(id, provider) for id, provider in providers.items()}


def _shelf(id: str, provider: DevProvider) -> Shelf:
    api = AisdkApi(package=provider.npm, url=provider.api) if provider.npm else NativeApi(url=provider.api, settings={})
    info = msgspec.structs.replace(new_provider(id), name=provider.name or id, api=api)
    listed: dict[str, Listed] = {}
    for model_id, raw in provider.models.items():
        model = listed[model_id] = _DevListed(id, model_id, raw)
        if b'"modes"' in bytes(raw):
            listed |= {f"{model_id}-{mode}": _DevMode(model, mode) for mode in model.modes()}
    return Shelf(info, listed)


class _DevListed:
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

    def facts(self) -> Facts:
        self._decode()
        return self._facts

    def modes(self) -> Mapping[str, DevMode]:
        self._decode()
        return self._modes

    def _decode(self) -> None:
        """Once; of what was decoded only what is needed stays, since there are thousands of models."""
        if self._raw is None:
            return
        try:
            model = decoder(DevModel).decode(self._raw)
        except UNDECODABLE as error:
            log.warning("models.dev: model %s/%s dropped: %s", self.provider_id, self.id, error)
        else:
            self._info = _info(self.provider_id, self.id, model)
            self._facts = Facts(model.temperature, bool(model.interleaved), model.reasoning_options)
            self._modes = model.experimental.modes
        self._raw = None


class _DevMode(Frozen):
    """A model's other way of working, listed as a model of its own."""

    base: _DevListed
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

    def facts(self) -> Facts:
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
            tools=model.tool_call, input=model.modalities.input, output=model.modalities.output
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
    """A mode's price replaces the one of the same tier."""
    return tuple({cost.tier and cost.tier.size: cost for cost in (*base, *own)}.values())


@lru_cache(maxsize=4096)
def _milliseconds(day: str) -> int:
    """Of a day, a month or a year; anything else is 0."""
    try:
        released = date.fromisoformat(day + REST_OF_DATE.get(len(day), ""))
    except ValueError:
        return 0
    return (released - EPOCH).days * 24 * 3600 * 1000
