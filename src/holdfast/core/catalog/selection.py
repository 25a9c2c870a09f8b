"""Selects a model when none is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.schema.catalog import ModelInfo


def newest_first(models: Iterable[ModelInfo]) -> list[ModelInfo]:
    """Deterministic order: equal dates are sorted by provider and model."""
    return sorted(models, key=lambda model: (-model.time.released, model.provider_id, model.id))


def choose_default(models: Sequence[ModelInfo]) -> ModelInfo | None:
    """The first model that can work as an agent, else the first that is not deprecated. `models` are usable, newest
    first."""
    current = [model for model in models if model.status != "deprecated"]
    able = (model for model in current if model.status == "active" and _is_agent(model))
    return next(able, next(iter(current), None))


def _is_agent(model: ModelInfo) -> bool:
    return model.capabilities.tools and "text" in model.capabilities.output
