"""Selects a model when none is named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.schema.catalog import ModelInfo

MONTH_MS = 30 * 24 * 3600 * 1000
OLDEST_SMALL = 18
UNKNOWN_COST = 999.0
WITHOUT_SMALL = ("azure", "azure-cognitive-services")
_SMALL = r"\b(?:nano|flash|lite|mini|haiku|small|fast)\b"


def newest_first(models: Iterable[ModelInfo]) -> list[ModelInfo]:
    """Deterministic order: equal dates are sorted by provider and model."""
    return sorted(models, key=lambda model: (-model.time.released, model.provider_id, model.id))


def choose_default(models: Sequence[ModelInfo]) -> ModelInfo | None:
    """The first model that can work as an agent, else the first that is not deprecated. `models` are usable, newest
    first."""
    current = [model for model in models if model.status != "deprecated"]
    able = (model for model in current if model.status == "active" and _is_agent(model))
    return next(able, next(iter(current), None))


def choose_small(provider_id: str, models: Sequence[ModelInfo], now: int) -> ModelInfo | None:
    """A cheap, recent model for titles and similar tasks."""
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
    return any(re.search(_SMALL, name.lower()) for name in (model.id, model.family or "", model.name))


def _cost(model: ModelInfo) -> float:
    return model.cost[0].input + model.cost[0].output if model.cost else UNKNOWN_COST


def _age(model: ModelInfo, now: int) -> float:
    """In months."""
    return max(0.0, (now - model.time.released) / MONTH_MS)
