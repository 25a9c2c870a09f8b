"""A Context Source: one typed value that the model is told about, with its loader, codec and texts."""

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
    """The value could not be read this time; the last admitted value stays in force. Distinct from `None`, which a
    codec may allow."""

    UNAVAILABLE = "unavailable"


class Absent(Enum):
    """The source was read and does not exist; the model is told that it has gone."""

    ABSENT = "absent"


UNAVAILABLE: Final = Unavailable.UNAVAILABLE
ABSENT: Final = Absent.ABSENT


class Codec(Protocol[T]):
    """How a value is stored. Make one per type and keep it: decoded values are cached per codec."""

    def encode(self, value: T, /) -> bytes:
        """Return plain JSON."""

    def decode(self, data: bytes | msgspec.Raw, /) -> T:
        """Raise msgspec.DecodeError or ValueError for JSON that is not a value of this codec."""


class JsonCodec(Generic[T]):
    """The codec of any type that msgspec supports."""

    def __init__(self, kind: type[T]) -> None:
        self.encode = msgspec.json.Encoder().encode
        self.decode: Callable[[bytes | msgspec.Raw], T] = msgspec.json.Decoder(kind).decode


class Source(Frozen, Generic[T], kw_only=True):
    """`baseline`, `update` and `removed` are pure functions. `baseline` states the value; `update(previous, current)`
    states the current value and never the previous one; `removed` is rendered while the source exists and stored, and
    is said once the source is absent."""

    key: str
    codec: Codec[T]
    load: Callable[[], Awaitable[T | Unavailable | Absent]]
    """Read the value once. An expected failure is UNAVAILABLE; an exception is a defect and fails the turn."""
    baseline: Callable[[T], str | Unavailable]
    update: Callable[[T, T], str | Unavailable]
    removed: Callable[[T], str | Unavailable] | None = None
    optional: bool = False
    """Whether a first baseline may be made without this source while it is unavailable."""
    timeout: float | None = None
    """Seconds for `load`; a longer one counts as UNAVAILABLE."""
    immediate: bool = False
    """Whether `load` returns at once, from memory or the local disk. Such sources are loaded in turn, without a task
    and without a timeout; all others are loaded concurrently."""

    def __post_init__(self) -> None:
        require_key(self.key)


def constant(value: T) -> Callable[[], Awaitable[T]]:
    """A loader that always returns this value."""

    async def load() -> T:
        return value

    return load


def require_key(key: str) -> None:
    """Raise InvalidKeyError unless the key looks like `namespace/name`."""
    if _KEY.match(key) is None:
        raise InvalidKeyError(key)


AnySource = Source[Any]
_KEY = pattern(KEY_PATTERN, re.ASCII)
