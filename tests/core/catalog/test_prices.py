"""What a turn costs."""

from __future__ import annotations

import pytest

from holdfast.core.catalog.prices import cost
from holdfast.schema.catalog import CacheCost, CostTier, ModelCost
from holdfast.schema.session import NO_TOKENS, CacheTokens, Tokens


def price(input: float, size: int | None = None) -> ModelCost:
    tier = None if size is None else CostTier(type="context", size=size)
    return ModelCost(tier=tier, input=input, output=10, cache=CacheCost(read=1, write=2))


def used(input: int, read: int = 0) -> Tokens:
    return Tokens(input=input, output=0, reasoning=0, cache=CacheTokens(read=read, write=0))


def test_every_kind_of_token_has_its_price() -> None:
    """SES-109, LLM-388: per million; reasoning is billed as output."""
    tokens = Tokens(input=1_000_000, output=100_000, reasoning=50_000, cache=CacheTokens(read=10_000, write=1_000))
    assert cost([price(3)], tokens) == pytest.approx(3 + 1.5 + 0.01 + 0.002)
    assert cost([price(3)], NO_TOKENS) == 0
    assert cost([], tokens) == 0


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(used(200_000), 1), (used(200_001), 2), (used(1, 200_000), 2), (used(500_001), 3), (used(1), 1)],
)
def test_a_long_context_has_its_own_price(tokens: Tokens, expected: float) -> None:
    """SES-109, LLM-388: above the size of a tier, cached tokens included; the largest tier that is exceeded."""
    prices = [price(1), price(3, 500_000), price(2, 200_000)]
    assert cost(prices, tokens) == pytest.approx((tokens.input * expected + tokens.cache.read) / 1_000_000)
    assert cost(prices, used(1_000_000), context_tokens=1) == pytest.approx(1)
