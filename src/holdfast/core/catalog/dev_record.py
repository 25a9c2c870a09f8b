"""models.dev's records, as far as they are used here; what else is in them is skipped.

Annotations are values here, not texts: the first model would have to wait until each of them is compiled."""

from functools import cache
from typing import Any, Literal, TypeVar

import msgspec

T = TypeVar("T")

UNDECODABLE = (ValueError, RecursionError)
"""What decoding raises: for a wrong type, for bytes that are no text, for endless nesting."""


class DevProvider(msgspec.Struct, frozen=True):
    name: str | None = None
    env: tuple[str, ...] = ()
    npm: str | None = None
    api: str | None = None
    models: dict[str, msgspec.Raw] = {}
    """Each is decoded when somebody looks at it."""


class DevTierOf(msgspec.Struct, frozen=True):
    type: Literal["context"]
    size: int


class DevPrice(msgspec.Struct, frozen=True):
    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0


class DevTier(DevPrice, frozen=True, kw_only=True):
    tier: DevTierOf


class DevCost(DevPrice, frozen=True):
    tiers: tuple[DevTier, ...] = ()
    context_over_200k: DevPrice | None = None


class DevModalities(msgspec.Struct, frozen=True):
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


class DevLimit(msgspec.Struct, frozen=True):
    context: int = 0
    output: int = 0
    input: int | None = None


class DevRoute(msgspec.Struct, frozen=True):
    npm: str | None = None
    api: str | None = None
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}


class DevMode(msgspec.Struct, frozen=True):
    cost: DevCost | None = None
    provider: DevRoute = DevRoute()


class DevExperimental(msgspec.Struct, frozen=True):
    modes: dict[str, DevMode] = {}


class DevReasoning(msgspec.Struct, frozen=True):
    type: str
    values: tuple[str | None, ...] = ()
    min: int | None = None
    max: int | None = None


class DevModel(msgspec.Struct, frozen=True):
    name: str | None = None
    family: str | None = None
    release_date: str = ""
    tool_call: bool = False
    temperature: bool | None = None
    interleaved: Any = None
    reasoning_options: tuple[DevReasoning, ...] = ()
    modalities: DevModalities = DevModalities()
    cost: DevCost | None = None
    limit: DevLimit = DevLimit()
    status: Literal["alpha", "beta", "deprecated", "active"] = "active"
    options: dict[str, Any] = {}
    headers: dict[str, str] = {}
    provider: DevRoute = DevRoute()
    experimental: DevExperimental = DevExperimental()


@cache
def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Made when somebody asks for a model: making one takes longer than loading this module."""
    return msgspec.json.Decoder(kind)
