"""What events change on a page: which messages are to be read again, which blocks began and ended, whether the
conversation is to be loaded again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.event.block import block_of_end
from holdfast.schema.codec import decoder
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.event.block import Block as BlockName
    from holdfast.core.event.stored_event import EventRow

PREFIX = "session.next."
RESETS = frozenset(f"{PREFIX}{name}" for name in ("revert.committed", "compaction.undone", "lineage.shortened"))
MARKS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "retried",
        "turn.abandoned",
        "activity.suspended",
        "activity.ended",
        "moved",
        "step.failed",
        "compaction.started",
        "compaction.failed",
    )
)
STARTS = {
    f"{PREFIX}text.started": f"{PREFIX}text",
    f"{PREFIX}reasoning.started": f"{PREFIX}reasoning",
    f"{PREFIX}tool.input.started": f"{PREFIX}tool.input",
    f"{PREFIX}shell.started": f"{PREFIX}shell",
    f"{PREFIX}compaction.started": f"{PREFIX}compaction",
}


class _Call(Record):
    message_id: str = ""


class _Request(Record):
    id: str = ""
    source: _Call | None = None
    tool: _Call | None = None


class _Subject(Record):
    """The fields of events that name messages."""

    assistant_message_id: str = ""
    message_id: str = ""
    text_id: str = ""
    reasoning_id: str = ""
    call_id: str = ""
    request_id: str = ""
    request: _Request | None = None


class Changes:
    """Collects what a number of events change."""

    def __init__(self) -> None:
        self.messages: dict[str, None] = {}
        """In the order in which they changed first."""
        self.shells: set[str] = set()
        """Calls whose shell messages changed."""
        self.marks: list[EventRow] = []
        self.started: set[BlockName] = set()
        self.ended: set[BlockName] = set()
        self.asked: dict[str, str] = {}
        """The messages of new requests to a person."""
        self.answered: set[str] = set()
        self.reset = False
        self.gone = False

    def add(self, rows: Iterable[EventRow]) -> None:
        for row in rows:
            self._add(row)

    def _add(self, row: EventRow) -> None:
        name = row.type.rpartition(".")[0]
        if name in RESETS:
            self.reset = True
        elif name == "session.deleted":
            self.gone = True
        if name in MARKS:
            self.marks.append(row)
        if not name.startswith(PREFIX):
            return
        try:
            subject: _Subject = decoder(_Subject).decode(row.data)
        except msgspec.DecodeError:
            return
        self._add_blocks(name, row, subject)
        if subject.request is not None:
            asking = subject.request.source or subject.request.tool
            if asking is not None and asking.message_id:
                self.asked[subject.request.id] = asking.message_id
                self.messages[asking.message_id] = None
        if subject.request_id:
            self.answered.add(subject.request_id)
        if changed := subject.assistant_message_id or subject.message_id:
            self.messages[changed] = None
        elif name == f"{PREFIX}shell.ended":
            self.shells.add(subject.call_id)

    def _add_blocks(self, name: str, row: EventRow, subject: _Subject) -> None:
        if (kind := STARTS.get(name)) is not None:
            part_id = subject.text_id or subject.reasoning_id or subject.call_id
            # As deltas name it: those of a command do not name the message.
            message_id = "" if name == f"{PREFIX}shell.started" else subject.assistant_message_id or subject.message_id
            self.started.add((kind, message_id, part_id))
        elif (ended := block_of_end(name, msgspec.Raw(row.data))) is not None:
            self.ended.add(ended)
