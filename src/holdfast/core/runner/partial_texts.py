"""Keeps the text of a running answer's open blocks in the store, so that a crash loses at most the last second of it.

Invariants
- At most one commit a second for a Session, and none for an answer that takes less than a second. Each holds what was
  added since the one before, so that its size does not depend on the length of the answer.
- Nothing waits for these commits. They carry the drain's fence: a process that lost its lease writes nothing.
- One is under way at a time, and its text counts as kept only when it has returned. So the rows of a block are always
  the beginning of its text, without a gap, whichever of them failed.
- The rows of a block are removed by the commit that holds its end."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import TYPE_CHECKING

from holdfast.core.database.errors import Refused
from holdfast.core.database.unit import Statement
from holdfast.core.session.stored_partials import PART_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.database.unit import Committed, Value
    from holdfast.core.runner.open_blocks import OpenBlock, OpenBlocks
    from holdfast.core.runner.outbox import Outbox

KEEP_SECONDS = 1.0

log = logging.getLogger(__name__)


class PartialTexts:
    def __init__(self, outbox: Outbox, blocks: OpenBlocks, session_id: str) -> None:
        self._outbox = outbox
        self._blocks = blocks
        self._session_id = session_id
        self._message_id = ""
        self.due: asyncio.TimerHandle | None = None
        """Set while a commit is due. New text needs no call of `keep_soon` then: this is asked for each delta."""
        self._writing: asyncio.Future[Committed] | None = None
        self._closed = False

    def begin(self, message_id: str) -> None:
        """The blocks are those of this message."""
        self._message_id = message_id

    def keep_soon(self) -> None:
        """A block has new text."""
        if self.due is None and not self._closed:
            self.due = asyncio.get_running_loop().call_later(KEEP_SECONDS, self._keep)

    def removal(self, block: OpenBlock) -> Sequence[Statement]:
        """What to commit with the end of a block."""
        return (Statement("partial.end", self._place(block)),) if block.is_stored else ()

    def close(self) -> None:
        self._closed = True
        if self.due is not None:
            self.due.cancel()
            self.due = None

    def _keep(self) -> None:
        self.due = None
        if self._writing is not None:
            self.keep_soon()
            return
        pieces = [(block, *block.text.after(block.kept_mark)) for block in self._blocks]
        pieces = [piece for piece in pieces if piece[1]]
        if not pieces:
            return
        rows = []
        for block, text, _ in pieces:
            rows.append(Statement("partial.keep", {**self._place(block), "start": block.kept, "text": text}))
            block.is_stored = True
        self._writing = self._outbox.write(*rows)
        self._writing.add_done_callback(functools.partial(self._kept, pieces))

    def _kept(self, pieces: Sequence[tuple[OpenBlock, str, int]], writing: asyncio.Future[Committed]) -> None:
        self._writing = None
        error = None if writing.cancelled() else writing.exception()
        if error is None:
            for block, text, mark in pieces:
                block.kept, block.kept_mark = block.kept + len(text), mark
        elif isinstance(error, Refused):
            self.close()  # another process has the Session
        else:
            log.debug("the text so far of %s could not be kept: %s", self._message_id, error)
            self.keep_soon()

    def _place(self, block: OpenBlock) -> dict[str, Value]:
        return {
            "session_id": self._session_id,
            "message_id": self._message_id,
            "kind": PART_KINDS[block.kind],
            "key": block.id,
        }
