"""The cost of a turn. Prices are US dollars per million tokens; the first entry is the base price, others are tiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.schema.session import NO_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.schema.catalog import ModelCost
    from holdfast.schema.session import Tokens

MILLION = 1_000_000


def cost(prices: Sequence[ModelCost], usage: Tokens, context_tokens: int | None = None) -> float:
    """Reasoning is billed as output. `context_tokens` selects the tier; by default it is the sum of all input
    tokens."""
    if context_tokens is None:
        context_tokens = usage.input + usage.cache.read + usage.cache.write
    price = _price(prices, context_tokens)
    if price is None:
        return 0.0
    dollars = (
        usage.input * price.input
        + (usage.output + usage.reasoning) * price.output
        + usage.cache.read * price.cache.read
        + usage.cache.write * price.cache.write
    )
    return dollars / MILLION


def cache_savings(price: Callable[[Tokens], float], used: Tokens) -> float | None:
    """What the tokens in the provider's cache would have cost more as other input; less than nothing if writing to the
    cache cost more than reading saved. None without such tokens, and if the price is not known."""
    cached = used.cache.read + used.cache.write
    if not cached:
        return None
    uncached = price(replace(used, input=used.input + cached, cache=NO_TOKENS.cache))
    return uncached - price(used) if uncached else None


def _price(prices: Sequence[ModelCost], context_tokens: int) -> ModelCost | None:
    """The tier with the largest size below the context, else the base price."""
    chosen, reached = None, -1
    for price in prices:
        size = price.tier.size if price.tier else 0
        if size > reached and (price.tier is None or context_tokens > size):
            chosen, reached = price, size
    return chosen
