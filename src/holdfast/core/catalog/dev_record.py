"""The records of models.dev, as far as they are used; other fields are skipped.

This module does not postpone the evaluation of annotations: msgspec would have to compile each of them when the first
model is read."""

from functools import cache
from typing import Any, Literal, TypeVar

import msgspec

T = TypeVar("T")

UNDECODABLE = (ValueError, RecursionError)
"""What decoding raises: for a wrong type, for invalid UTF-8, for deep nesting."""


class DevProvider(msgspec.Struct, frozen=True):
    name: str | None = None
    env: tuple[str, ...] = ()
    npm: str | None = None
    api: str | None = None
    models: dict[str, msgspec.Raw] = {}
    """Each model is decoded on first use."""


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
    structured_output: bool | None = None
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
    """Built on first use: building one takes longer than importing this module."""
    return msgspec.json.Decoder(kind)
