"""Which model is taken when nobody named one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.catalog.draft import new_model
from holdfast.core.catalog.selection import MONTH_MS, choose_default, choose_small, newest_first
from holdfast.schema.catalog import CacheCost, ModelCapabilities, ModelCost, ModelInfo, ModelTime

NOW = 1_800_000_000_000


def model(id: str, price: float | None = 1, months: float = 1, provider: str = "p", **fields: Any) -> ModelInfo:
    cost = () if price is None else (ModelCost(input=price / 2, output=price / 2, cache=CacheCost(read=0, write=0)),)
    plain = msgspec.structs.replace(
        new_model(provider, id),
        cost=cost,
        time=ModelTime(released=int(NOW - months * MONTH_MS)),
        capabilities=ModelCapabilities(tools=True, input=("text",), output=("text",)),
    )
    return msgspec.structs.replace(plain, **fields)


def test_newest_first_and_always_the_same() -> None:
    """CAT-090, trap 23: equal dates go by provider, then by model."""
    models = [model("b"), model("a", provider="q"), model("a"), model("old", months=9), model("new", months=0)]
    expected = [("p", "new"), ("p", "a"), ("p", "b"), ("q", "a"), ("p", "old")]
    for order in (models, models[::-1]):
        assert [(found.provider_id, found.id) for found in newest_first(order)] == expected


IMAGES = ModelCapabilities(tools=True, input=("text",), output=("image",))
TALKS = ModelCapabilities(tools=False, input=("text",), output=("text",))


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ([], None),
        ([model("gone", status="deprecated")], None),
        ([model("gone", status="deprecated"), model("beta", status="beta")], "beta"),
        ([model("alpha", status="alpha"), model("draws", capabilities=IMAGES), model("fine")], "fine"),
        ([model("talks", capabilities=TALKS), model("beta", status="beta")], "talks"),
    ],
)
def test_the_automatic_choice_never_takes_a_deprecated_model(models: list[ModelInfo], expected: str | None) -> None:
    """CAT-118: deprecated never, the rest only if there is nothing better."""
    found = choose_default(models)
    assert (found.id if found else None) == expected


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ([model("big", 10), model("tiny-mini", 2)], "tiny-mini"),
        ([model("big", 10), model("cheap", 1)], "cheap"),
        ([model("x-haiku", 5), model("x-flash", 4), model("cheap", 1)], "x-flash"),
        ([model("plain", 3, name="Some Lite Model"), model("cheap", 1)], "plain"),
        ([model("plain", 3, family="gpt-nano"), model("cheap", 1)], "plain"),
        ([model("minister", 3), model("cheap", 1)], "cheap"),
        ([model("old-mini", 1, months=19), model("plain", 9)], "plain"),
        ([model("free-mini", 0), model("plain", 9)], "plain"),
        ([model("a-mini", None), model("b-mini", 900)], "b-mini"),
        ([model("beta-mini", status="beta"), model("off-mini", enabled=False), model("plain", 9)], "plain"),
        ([model("draws-mini", capabilities=IMAGES)], None),
        ([model("a-mini", 10, months=10), model("b-mini", 10, months=1)], "b-mini"),
        ([model("a-mini", 8, months=17), model("b-mini", 10, months=1)], "b-mini"),
        ([model("a-mini", 7, months=17), model("b-mini", 10, months=1)], "a-mini"),
        ([], None),
    ],
)
def test_the_small_model_is_the_cheapest_recent_one(models: list[ModelInfo], expected: str | None) -> None:
    """CAT-123: cheap first, then recent; called small, if any is; not free, not old, not on trial."""
    found = choose_small("p", models, NOW)
    assert (found.id if found else None) == expected


def test_providers_with_a_rule_of_their_own() -> None:
    """CAT-123."""
    models = [model("cheap-mini", 1), model("gpt-5-nano", 5)]
    for provider in ("azure", "azure-cognitive-services"):
        assert choose_small(provider, models, NOW) is None
    found = choose_small("opencode", models, NOW)
    assert found is not None
    assert found.id == "gpt-5-nano"
    other = choose_small("opencode", [models[0], msgspec.structs.replace(models[1], enabled=False)], NOW)
    assert other is not None
    assert other.id == "cheap-mini"
