"""Marks between messages, from events."""

from __future__ import annotations

from typing import Any

from holdfast.core.event.stored_event import EventRow
from holdfast.schema import session_event as ev
from holdfast.schema.codec import encode
from holdfast.schema.location import Location
from holdfast.schema.record import Record
from holdfast.schema.rendered import CompactionEntry, MarkEntry
from holdfast.schema.session_message import UnknownError
from holdfast.schema.turn_event import TurnAbandoned
from holdfast.server.render.marks import CRASHED, SUSPENDED, mark_entries

BASE: dict[str, Any] = {"timestamp": 7, "session_id": "ses_1"}


def rows(*events: tuple[str, Record]) -> list[EventRow]:
    return [
        EventRow(seq, f"evt_{seq}", f"session.next.{name}", encode(data), None)
        for seq, (name, data) in enumerate(events)
    ]


def failed(message: str) -> tuple[str, Record]:
    return "step.failed.2", ev.StepFailed(**BASE, assistant_message_id="msg_1", error=UnknownError(message=message))


def told(*events: tuple[str, Record]) -> list[tuple[str, str, int]]:
    found = mark_entries(rows(*events), ended=True)
    return [(mark.kind, mark.title, mark.seq) for mark in found if isinstance(mark, MarkEntry)]


def test_what_each_event_is_called() -> None:
    """WEB-116."""
    error = ev.RetryError(message="too\nbusy", is_retryable=True, response_body="<b>")
    suspended = ("activity.suspended.1", ev.ActivitySuspended(**BASE))
    assert told(
        ("retried.1", ev.Retried(**BASE, attempt=2, error=error)),
        ("turn.abandoned.1", TurnAbandoned(**BASE, reason="refused")),
        ("activity.ended.1", ev.ActivityEnded(**BASE, reason="Provider turn interrupted")),
        ("moved.1", ev.Moved(**BASE, location=Location(directory="/x"))),
        suspended,
        failed("The process ended"),
        suspended,
        failed("Suspended: the process was shut down"),
        suspended,
    ) == [
        ("retry", "Attempt 2 failed: too busy", 0),
        ("abandoned", "refused", 1),
        ("interrupted", "Provider turn interrupted", 2),
        ("moved", "Moved to /x", 3),
        ("suspended", SUSPENDED, 4),
        ("crash", CRASHED, 6),
        ("suspended", SUSPENDED, 8),
    ]


def test_compactions_that_have_no_message() -> None:
    """WEB-116: one that failed, and on the newest page one that is under way."""
    began = ("compaction.started.1", ev.CompactionStarted(**BASE, message_id="msg_1", reason="manual"))
    broke = ("compaction.failed.1", ev.CompactionFailed(**BASE, message_id="msg_1", error=UnknownError(message="no")))
    (entry,) = mark_entries(rows(began, broke), ended=False)
    assert isinstance(entry, CompactionEntry)
    assert (entry.id, entry.seq, entry.reason, entry.error, entry.open) == ("msg_1", 0, "manual", "no", False)
    (entry,) = mark_entries(rows(began), ended=False)
    assert isinstance(entry, CompactionEntry)
    assert entry.open
    assert mark_entries(rows(began), ended=True) == []


def test_an_event_of_another_version_is_left_out() -> None:
    """WEB-116."""
    assert mark_entries([EventRow(0, "evt_0", "session.next.retried.1", b'{"x":1}', None)], ended=False) == []
