"""Tells a stream of the page which of its parts may have changed. Keeps only live text of the followed Session, so that
any number of busy Sessions fills no buffer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.event.bus import Announcement

FAREWELL = "global.disposed"
"""The server stops."""
DELTAS = frozenset(f"session.next.{name}.delta" for name in ("text", "reasoning", "tool.input", "shell", "compaction"))
REQUESTS = frozenset(
    (
        *(f"permission.v2.{name}" for name in ("asked", "replied")),
        *(f"question.v2.{name}" for name in ("asked", "replied", "rejected")),
        *(f"form.{name}" for name in ("created", "replied", "cancelled")),
    )
)
SESSIONS = frozenset(
    (
        *("session.created", "session.updated", "session.deleted", "session.status", "session.idle", "session.error"),
        *(f"session.next.{name}" for name in ("prompt.admitted", "prompted", "synthetic", "retried", "moved")),
        *(f"session.next.step.{name}" for name in ("started", "ended", "failed")),
        *(f"session.next.compaction.{name}" for name in ("started", "ended", "failed")),
        *(f"session.next.{name}" for name in ("tool.called", "shell.started", "shell.ended")),
        *(f"session.next.{name}" for name in ("agent.switched", "model.switched", "revert.staged", "revert.cleared")),
    )
)
"""Events after which a Session may do something else."""
TODOS = "todo.updated"
TYPES = DELTAS | REQUESTS | SESSIONS | {TODOS, FAREWELL}


class Watch:
    def __init__(self, session_id: str | None) -> None:
        self._session_id = session_id
        self.status = False
        self.overview = True
        self.requests = True
        self.unannounced = False
        """Whether some process has committed something, which need not have been announced."""
        self.changed = asyncio.Event()

    def accepts(self, item: Announcement) -> bool:
        """Takes note of an event. True for one that the stream itself reads."""
        if item.type in DELTAS:
            return item.aggregate_id == self._session_id
        if item.type == FAREWELL:
            return True
        followed = self._session_id is not None and (
            item.aggregate_id == self._session_id or self._session_id in item.ancestors
        )
        self.status = self.status or followed
        if item.type != TODOS:
            self.overview = True
        if item.type in REQUESTS or item.type == "session.deleted" or item.type == "session.status":
            self.requests = True
        self.changed.set()
        return False

    def committed(self) -> None:
        if not self.unannounced:
            self.unannounced = True
            self.changed.set()
