"""The Context Snapshot: the values the model was told, per source, compared with at the next boundary. Never sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from holdfast.core.context.source import KEY_PATTERN
from holdfast.schema.codec import decoder, encode
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.core.context.source import Codec


class SnapshotEntry(Record):
    """The encoded value, and the text to say when the source is gone, rendered while it existed."""

    value: msgspec.Raw
    removed: Annotated[str, msgspec.Meta(min_length=1)] | None = None


Entries = dict[Annotated[str, msgspec.Meta(pattern=KEY_PATTERN)], SnapshotEntry]


class Snapshot:
    """Immutable entries by key. Each value is decoded once: every boundary compares with it."""

    def __init__(self, entries: Mapping[str, SnapshotEntry]) -> None:
        self._entries = entries
        self._decoded: dict[str, tuple[Codec[Any], Any]] = {}

    @classmethod
    def decode(cls, stored: str) -> Snapshot:
        """Raises msgspec.DecodeError if the envelope is damaged. The values inside are not decoded."""
        return cls(decoder(Entries).decode(stored))

    def encode(self) -> str:
        return encode(self._entries).decode()

    def value(self, key: str, codec: Codec[Any]) -> Any:
        """The decoded value. Raises what the codec raises for a value it cannot decode."""
        known = self._decoded.get(key)
        if known is None or known[0] is not codec:
            known = self._decoded[key] = (codec, codec.decode(self._entries[key].value))
        return known[1]

    def __getitem__(self, key: str) -> SnapshotEntry:
        return self._entries[key]

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
