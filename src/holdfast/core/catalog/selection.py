"""Which model is taken when nobody named one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.schema.catalog import ModelInfo

MONTH_MS = 30 * 24 * 3600 * 1000
OLDEST_SMALL = 18
UNKNOWN_COST = 999.0
WITHOUT_SMALL = ("azure", "azure-cognitive-services")
_SMALL = pattern(r"\b(?:nano|flash|lite|mini|haiku|small|fast)\b")


def newest_first(models: Iterable[ModelInfo]) -> list[ModelInfo]:
    """The same order every time: equal dates go by provider, then by model."""
    return sorted(models, key=lambda model: (-model.time.released, model.provider_id, model.id))


def automatic(models: Sequence[ModelInfo]) -> ModelInfo | None:
    """Of models that can be used, newest first: one that works as an agent, else whatever is not on its way out."""
    current = [model for model in models if model.status != "deprecated"]
    able = (model for model in current if model.status == "active" and _is_agent(model))
    return next(able, next(iter(current), None))


def small(provider_id: str, models: Sequence[ModelInfo], now: int) -> ModelInfo | None:
    """A cheap and recent one for titles and the like."""
    if provider_id in WITHOUT_SMALL:
        return None
    usable = [model for model in models if model.enabled and model.status == "active"]
    if provider_id == "opencode" and (nano := next((m for m in usable if m.id == "gpt-5-nano"), None)):
        return nano
    candidates = [
        model
        for model in usable
        if "text" in model.capabilities.input
        and "text" in model.capabilities.output
        and _cost(model) > 0
        and _age(model, now) <= OLDEST_SMALL
    ]
    candidates = [model for model in candidates if _is_called_small(model)] or candidates
    if not candidates:
        return None
    dearest = max(map(_cost, candidates))
    oldest = max(_age(model, now) for model in candidates) or 1.0
    return min(
        newest_first(candidates), key=lambda model: 0.8 * _cost(model) / dearest + 0.2 * _age(model, now) / oldest
    )


def _is_agent(model: ModelInfo) -> bool:
    return model.capabilities.tools and "text" in model.capabilities.output


def _is_called_small(model: ModelInfo) -> bool:
    return any(_SMALL.search(name.lower()) for name in (model.id, model.family or "", model.name))


def _cost(model: ModelInfo) -> float:
    return model.cost[0].input + model.cost[0].output if model.cost else UNKNOWN_COST


def _age(model: ModelInfo, now: int) -> float:
    """In months."""
    return max(0.0, (now - model.time.released) / MONTH_MS)
