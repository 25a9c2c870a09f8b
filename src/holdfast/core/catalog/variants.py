"""Variants that follow from what a model can do. They are spelled as configuration spells them, so that they take the
same way into a request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.catalog import packages
from holdfast.schema.catalog import ModelVariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.catalog.draft import Facts
    from holdfast.core.catalog.packages import Dialect
    from holdfast.schema.catalog import ModelInfo

HIGH_BUDGET = 16_000
_GLM = re.compile(r"glm-5[.p-]2")


def with_generated(model: ModelInfo, facts: Facts) -> ModelInfo:
    """An explicit variant wins over a generated one but takes its place; the others follow."""
    dialect = packages.dialect(model.api)
    generated = {id: ModelVariant(id=id, headers={}, body=body) for id, body in _generated(model, facts, dialect)}
    if not generated:
        return model
    variants = {**generated, **{variant.id: variant for variant in model.variants}}
    return msgspec.structs.replace(model, variants=tuple(variants.values()))


def _generated(model: ModelInfo, facts: Facts, dialect: Dialect) -> Iterator[tuple[str, dict[str, Any]]]:
    if dialect is packages.COMPATIBLE and any(_GLM.search(name.lower()) for name in (model.id, model.api.id)):
        yield "high", {"reasoning_effort": "high"}
        yield "max", {"reasoning_effort": "max"}
    for option in facts.reasoning:
        match option.type:
            case "effort":
                for value in option.values:
                    if value is not None and (body := _effort(dialect, value)):
                        yield value, body
            case "budget_tokens" if option.max is not None:
                if body := _budget(dialect, min(HIGH_BUDGET, option.max)):
                    yield "high", body
                    yield "max", _budget(dialect, option.max)
            case "toggle":
                if body := _off(dialect):
                    yield "none", body
                    yield "high", _budget(dialect, HIGH_BUDGET) or _effort(dialect, "high")
            case _:
                pass


def _effort(dialect: Dialect, value: str) -> dict[str, Any]:
    match dialect.namespace:
        case "openai":
            return {"reasoningEffort": value}
        case "openrouter":
            return {"reasoning": {"effort": value}}
        case "anthropic":
            return {"effort": value}
        case "gemini":
            return {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": value}}
        case _:
            return {}


def _budget(dialect: Dialect, tokens: int) -> dict[str, Any]:
    match dialect.namespace:
        case "anthropic" | "bedrock":
            return {"thinking": {"type": "enabled", "budgetTokens": tokens}}
        case "gemini":
            return {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": tokens}}
        case _:
            return {}


def _off(dialect: Dialect) -> dict[str, Any]:
    match dialect.namespace:
        case "anthropic" | "bedrock":
            return {"thinking": {"type": "disabled"}}
        case "gemini":
            return {"thinkingConfig": {"thinkingBudget": 0}}
        case _:
            return _effort(dialect, "none")
