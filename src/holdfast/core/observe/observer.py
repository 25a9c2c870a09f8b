"""Sees the events that this process has committed, and counts and logs them. A failure here is logged and affects
nobody."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from holdfast.core.observe.counters import Counters
from holdfast.core.observe.open_work import OpenWork
from holdfast.core.observe.turn_log import TurnLog
from holdfast.schema import session_event as ev
from holdfast.schema.turn_event import RecoveryDecided, TurnAbandoned, TurnDispatched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.schema.record import Record

KINDS = frozenset(
    {
        *(TurnDispatched, TurnAbandoned, ev.StepStarted, ev.StepEnded, ev.StepFailed, ev.UsageRecorded, ev.Retried),
        *(ev.ToolCalled, ev.ToolSuccess, ev.ToolFailed, ev.CompactionEnded, ev.CompactionFailed),
        *(ev.PermissionAsked, ev.PermissionReplied, ev.QuestionAsked, ev.QuestionReplied, ev.QuestionRejected),
        *(ev.FormAsked, ev.FormReplied, ev.FormCancelled, ev.ActivitySuspended, ev.ActivityEnded),
        RecoveryDecided,
        *(ev.SessionCreated, ev.PromptAdmitted),
    }
)
"""Events that somebody here looks at."""

log = logging.getLogger(__name__)


class Observer:
    def __init__(self) -> None:
        self.started = time.time()
        self._open = OpenWork()
        self.counters = Counters(self._open)
        self._turn_log = TurnLog(self._open)
        self.traced: Callable[[Record], None] | None = None
        """Gets the events too, while traces are exported."""

    def committed(self, events: Sequence[Record], seconds: float) -> None:
        """`seconds` is how long the commit took."""
        self.counters.commit_seconds.observe(seconds)
        for event in events:
            if type(event) in KINDS:
                try:
                    self._observe(event)
                except Exception:
                    log.exception("observing %s", type(event).__name__)

    def _observe(self, event: Record) -> None:
        self._open.begin(event)
        self.counters.count(event)
        self._turn_log.tell(event)
        if self.traced is not None:
            self.traced(event)
        self._open.end(event)
