"""Values of foreign JSON: whatever has another type than expected is absent. Nesting is bounded."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from holdfast.schema.ids import ALPHABET, COUNTER_SPAN, RANDOM_LENGTH, format_id
from holdfast.schema.pattern import pattern
from holdfast.schema.session import CacheTokens, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
LARGEST_NUMBER = 2**53 - 1
DEEPEST = 100
"""Levels of nested values. SQLite reads no JSON with more than 1,000."""
_ID = pattern(r"[a-z]{3}_[0-9A-Za-z]{10,60}\Z")


def mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: object, default: str = "") -> str:
    return value if isinstance(value, str) else default


def optional_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def number(value: object, default: int = 0) -> int:
    """A whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST_NUMBER:
        return default
    return int(value)


def amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST_NUMBER:
        return 0.0
    return float(value)


def tokens(value: object) -> Tokens:
    found = mapping(value)
    cache = mapping(found.get("cache"))
    return Tokens(
        input=number(found.get("input")),
        output=number(found.get("output")),
        reasoning=number(found.get("reasoning")),
        cache=CacheTokens(read=number(cache.get("read")), write=number(cache.get("write"))),
    )


def is_deep(value: object) -> bool:
    """Whether values are nested in more levels than are taken over."""
    level: list[object] = [value]
    for _ in range(DEEPEST):
        level = [below for item in level for below in _below(item)]
        if not level:
            return False
    return True


def is_id(prefix: str, value: object) -> bool:
    return isinstance(value, str) and value.startswith(f"{prefix}_") and _ID.match(value) is not None


def derived_id(prefix: str, time: int, *names: str, counter: int = 0, descending: bool = False) -> str:
    """An id that is the same for the same names and time."""
    digest = hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).digest()
    tail = "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:RANDOM_LENGTH])
    return format_id(prefix, time * COUNTER_SPAN + counter % COUNTER_SPAN, tail, descending=descending)


def _below(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value
