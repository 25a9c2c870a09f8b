"""Events as lines: one JSON object each, with the stored bytes of the event's data."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.bundle.errors import BundleInvalid
from holdfast.schema.bundle import BundleEvent, BundlePart
from holdfast.schema.codec import decoder, encode
from holdfast.schema.event import SerializedEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINE_BYTES = 256 * 1024 * 1024
"""The longest line that is read. An event carries at most a prompt with its attachments."""
GROUP_EVENTS = 200
GROUP_BYTES = 4 * 1024 * 1024
"""A group of events is complete when it has so many of either. One event may be larger."""


def encode_line(event: SerializedEvent) -> bytes:
    line = BundleEvent(seq=event.seq, id=event.id, type=event.type, metadata=event.metadata, data=event.data)
    return encode(line) + b"\n"


class Digest:
    """Size and hash of a part, while it is written or read."""

    def __init__(self) -> None:
        self.size = 0
        self._hash = hashlib.sha256()

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self._hash.update(data)

    def part(self, name: str) -> BundlePart:
        return BundlePart(name=name, size=self.size, sha256=self._hash.hexdigest())


def event_groups(
    chunks: Iterable[bytes], session_id: str, name: str, first: int, last: int
) -> Iterator[list[SerializedEvent]]:
    """The events of a part in groups. Raises BundleInvalid unless they are `first` … `last`, without a gap."""
    group: list[SerializedEvent] = []
    size, expected = 0, first
    for line in _lines(chunks, name):
        event = _event(line, session_id, name)
        if event.seq != expected or event.seq > last:
            raise BundleInvalid(f"{name} has the event {event.seq} where {expected} has to be")
        expected += 1
        group.append(event)
        size += len(line)
        if len(group) >= GROUP_EVENTS or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if expected != last + 1:
        raise BundleInvalid(f"{name} ends with the event {expected - 1}, and not with {last}")
    if group:
        yield group


def _lines(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        *complete, rest = chunk.split(b"\n")
        for end in complete:
            yield b"".join((*pieces, end))
            pieces, size = [], 0
        pieces.append(rest)
        size += len(rest)
        if size > LINE_BYTES:
            raise BundleInvalid(f"{name} has a line of more than {LINE_BYTES:,} bytes")
    if size:
        raise BundleInvalid(f"{name} does not end with a complete line")


def _event(line: bytes, session_id: str, name: str) -> SerializedEvent:
    try:
        found: BundleEvent = decoder(BundleEvent).decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BundleInvalid(f"{name} has a line that is no event ({error})") from error
    return SerializedEvent(
        id=found.id,
        type=found.type,
        seq=found.seq,
        aggregate_id=session_id,
        data=found.data,
        metadata=found.metadata,
    )
