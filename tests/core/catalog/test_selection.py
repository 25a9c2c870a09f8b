"""Which model is taken when nobody named one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.catalog.draft import new_model
from holdfast.core.catalog.selection import choose_default, newest_first
from holdfast.schema.catalog import ModelCapabilities, ModelInfo, ModelTime

NOW = 1_800_000_000_000
MONTH = 30 * 24 * 3600 * 1000


def model(id: str, months: float = 1, provider: str = "p", **fields: Any) -> ModelInfo:
    plain = msgspec.structs.replace(
        new_model(provider, id),
        time=ModelTime(released=int(NOW - months * MONTH)),
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
