"""A Context Source: one typed fact about the surroundings, how to observe it and how to say it."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import msgspec

from holdfast.core.context.errors import InvalidKeyError
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

KEY_PATTERN = r"\A[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._/-]*\Z"
REMOTE_TIMEOUT = 5.0
"""Seconds for one observation that leaves the local disk."""


class Unavailable(Enum):
    """Could not be observed just now. Not an empty value, and not `None`, which a codec may allow."""

    UNAVAILABLE = "unavailable"


UNAVAILABLE: Final = Unavailable.UNAVAILABLE


class Codec(Protocol[T]):
    """How a value is stored. Make one per type and keep it: decoded values are remembered per codec."""

    def encode(self, value: T, /) -> bytes:
        """Plain JSON."""

    def decode(self, data: bytes | msgspec.Raw, /) -> T:
        """Raises msgspec.DecodeError or ValueError when the stored JSON is not such a value."""


class JsonCodec(Generic[T]):
    """The codec of whatever msgspec understands."""

    def __init__(self, kind: type[T]) -> None:
        self.encode = msgspec.json.Encoder().encode
        self.decode: Callable[[bytes | msgspec.Raw], T] = msgspec.json.Decoder(kind).decode


class Source(Frozen, Generic[T], kw_only=True):
    """Renderers are pure. `baseline` states the value, `update` states what is now in force, never what was before,
    and `removed` is written while the source still exists, to be said when it is gone."""

    key: str
    codec: Codec[T]
    load: Callable[[], T | Unavailable | Awaitable[T | Unavailable]]
    """Observes once. What is at hand is returned as it is; only an observation that must wait is an awaitable.
    A failure that is to be expected is UNAVAILABLE; anything raised is a defect and fails the turn."""
    baseline: Callable[[T], str | Unavailable]
    update: Callable[[T, T], str | Unavailable]
    removed: Callable[[T], str | Unavailable] | None = None
    optional: bool = False
    """Whether an initial baseline may do without it while it is unavailable."""
    timeout: float | None = None
    """Seconds for one observation; longer counts as UNAVAILABLE."""

    def __post_init__(self) -> None:
        require_key(self.key)


def require_key(key: str) -> None:
    if _KEY.match(key) is None:
        raise InvalidKeyError(key)


AnySource = Source[Any]
_KEY = pattern(KEY_PATTERN, re.ASCII)
