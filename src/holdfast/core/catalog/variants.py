"""Generates variants from a model's capabilities, in the spelling of configuration, so that they are processed
alike."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from holdfast.core.catalog import packages
from holdfast.schema.catalog import ModelVariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.catalog.dev_record import DevReasoning
    from holdfast.core.catalog.draft import ModelFacts
    from holdfast.schema.catalog import ModelApi, ModelInfo

HIGH_BUDGET = 16_000
GLM = tuple(ModelVariant(id=id, headers={}, body={"reasoning_effort": id}) for id in ("high", "max"))
_GLM = r"glm-5[.p-]2"


def with_generated(model: ModelInfo, api: ModelApi, facts: ModelFacts) -> tuple[ModelVariant, ...]:
    """All variants of the model. A configured variant replaces a generated one in its position; others follow."""
    dialect = packages.dialect(api)
    generated = _of_reasoning(dialect.namespace, facts.reasoning) if facts.reasoning else ()
    if dialect is packages.COMPATIBLE and re.search(_GLM, f"{model.id} {api.id}".lower()):
        generated = (*GLM, *generated)
    if not (generated and model.variants):
        return generated or model.variants
    return tuple({variant.id: variant for variant in (*generated, *model.variants)}.values())


@lru_cache(maxsize=1024)
def _of_reasoning(namespace: str, reasoning: tuple[DevReasoning, ...]) -> tuple[ModelVariant, ...]:
    """Cached, because many models have the same options."""
    found = {id: ModelVariant(id=id, headers={}, body=body) for id, body in _generated(namespace, reasoning)}
    return tuple(found.values())


def _generated(namespace: str, reasoning: tuple[DevReasoning, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    for option in reasoning:
        match option.type:
            case "effort":
                for value in option.values:
                    if value is not None and (body := _effort(namespace, value)):
                        yield value, body
            case "budget_tokens" if option.max is not None:
                if body := _budget(namespace, min(HIGH_BUDGET, option.max)):
                    yield "high", body
                    yield "max", _budget(namespace, option.max)
            case "toggle":
                if body := _off(namespace):
                    yield "none", body
                    yield "high", _budget(namespace, HIGH_BUDGET) or _effort(namespace, "high")
            case _:
                pass


def _effort(namespace: str, value: str) -> dict[str, Any]:
    match namespace:
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


def _budget(namespace: str, tokens: int) -> dict[str, Any]:
    match namespace:
        case "anthropic" | "bedrock":
            return {"thinking": {"type": "enabled", "budgetTokens": tokens}}
        case "gemini":
            return {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": tokens}}
        case _:
            return {}


def _off(namespace: str) -> dict[str, Any]:
    match namespace:
        case "anthropic" | "bedrock":
            return {"thinking": {"type": "disabled"}}
        case "gemini":
            return {"thinkingConfig": {"thinkingBudget": 0}}
        case _:
            return _effort(namespace, "none")
