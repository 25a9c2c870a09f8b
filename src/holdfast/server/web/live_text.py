"""The texts of the followed Session that are being written, put together from deltas.

Invariants
- A text is complete if its start was seen, or if this process receives it. Any other begins with `…`.
- Nothing is sent for a block after its end: the entry with the whole text has been sent by then."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.event.block import block_of_delta
from holdfast.schema.codec import decoder
from holdfast.schema.event import EventEnvelope
from holdfast.schema.record import Record
from holdfast.server.web.open_blocks import OpenBlock, PlainBlock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from holdfast.core.event.block import Block as BlockName
    from holdfast.core.event.bus import Announcement
    from holdfast.core.runner.open_answers import OpenText
    from holdfast.schema.rendered import TextFormat
    from holdfast.schema.view import Block, BlockKind

KINDS: dict[str, BlockKind] = {
    "session.next.text": "text",
    "session.next.reasoning": "reasoning",
    "session.next.tool.input": "input",
    "session.next.shell": "shell",
    "session.next.compaction": "compaction",
}
NAMES = {kind: name for name, kind in KINDS.items()}
REMEMBERED = 1_024
"""Blocks that are remembered as begun or ended."""
MISSING = "…"


class Delta(Record):
    delta: str = ""
    text: str = ""


class LiveText:
    def __init__(self, form: TextFormat = "html") -> None:
        self._block = OpenBlock if form == "html" else PlainBlock
        self._open: dict[BlockName, OpenBlock | PlainBlock] = {}
        self._begun: OrderedDict[BlockName, None] = OrderedDict()
        self._ended: OrderedDict[BlockName, None] = OrderedDict()

    def restore(self, texts: Iterable[OpenText], buffered: Iterable[Announcement]) -> list[Announcement]:
        """Take over what this process has announced of open blocks. Returns what of `buffered`, the announcements that
        have arrived, is not part of that."""
        for text in texts:
            name = NAMES[text.kind], text.message_id, text.id
            self._open[name] = self._block(text.message_id, text.id, text.kind, text.text)
        return [item for item in buffered if _name(item) not in self._open]

    def start(self, names: Iterable[BlockName]) -> None:
        for name in names:
            _remember(self._begun, name)

    def end(self, names: Iterable[BlockName]) -> None:
        for name in names:
            _remember(self._ended, name)
            self._open.pop(name, None)
            self._begun.pop(name, None)

    def unknown(self, batch: Iterable[Announcement]) -> set[BlockName]:
        """Blocks of deltas that are neither open nor ended."""
        names = {name for item in batch if (name := _name(item)) is not None}
        return {name for name in names if name not in self._open and name not in self._ended}

    def open(self, name: BlockName, message_id: str) -> None:
        kind, _, part_id = name
        begun = "" if name in self._begun else MISSING
        self._open[name] = self._block(message_id, part_id or message_id, KINDS[kind], begun)

    def add(self, batch: Iterable[Announcement]) -> None:
        for item in batch:
            event: EventEnvelope = decoder(EventEnvelope).decode(item.wire)
            name = block_of_delta(event.type, event.data)
            if name is not None and (block := self._open.get(name)) is not None:
                delta: Delta = decoder(Delta).decode(event.data)
                block.add(delta.delta or delta.text)

    def unplaced(self, placed: Collection[str]) -> set[str]:
        """The messages of open answers that are not among these."""
        answers = (block for block in self._open.values() if block.kind not in ("shell", "compaction"))
        return {block.message_id for block in answers} - set(placed)

    def take(self, held: Collection[str]) -> list[Block]:
        """What changed, but nothing of the messages in `held`."""
        return [frame for block in self._open.values() if block.message_id not in held for frame in block.take()]


def _name(item: Announcement) -> BlockName | None:
    try:
        event: EventEnvelope = decoder(EventEnvelope).decode(item.wire)
    except msgspec.DecodeError:
        return None
    return block_of_delta(event.type, event.data)


def _remember(names: OrderedDict[BlockName, None], name: BlockName) -> None:
    names[name] = None
    if len(names) > REMEMBERED:
        names.popitem(last=False)
