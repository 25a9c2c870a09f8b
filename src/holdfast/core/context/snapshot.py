"""The Context Snapshot: what the model was told, per source, for the next boundary to compare with. Never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from holdfast.core.context.source import KEY_PATTERN
from holdfast.schema.codec import decoder, encode
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.core.context.source import Codec


class Entry(Record):
    """What was admitted: the encoded value, and what to say once the source is gone, written while it still existed."""

    value: msgspec.Raw
    removed: Annotated[str, msgspec.Meta(min_length=1)] | None = None


Entries = dict[Annotated[str, msgspec.Meta(pattern=KEY_PATTERN)], Entry]


class Snapshot:
    """Immutable entries by key; each value is decoded once, since every boundary compares with it."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._decoded: dict[str, tuple[Codec[Any], Any]] = {}

    @classmethod
    def decode(cls, stored: str) -> Snapshot:
        """Raises msgspec.DecodeError when the envelope is damaged. Values inside it are not looked at."""
        return cls(decoder(Entries).decode(stored))

    def encode(self) -> str:
        return encode(self._entries).decode()

    def value(self, key: str, codec: Codec[Any]) -> Any:
        """The admitted value. Raises what the codec raises when it is none of its values."""
        known = self._decoded.get(key)
        if known is None or known[0] is not codec:
            known = self._decoded[key] = (codec, codec.decode(self._entries[key].value))
        return known[1]

    def __getitem__(self, key: str) -> Entry:
        return self._entries[key]

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
