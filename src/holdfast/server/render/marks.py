"""What happened between messages, from events of the log: retries, crashes, shutdowns, interruptions, moves, and
compactions that failed or are under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.session.answer_outcome import TURN_SUSPENDED
from holdfast.schema import session_event as ev
from holdfast.schema.codec import decoder
from holdfast.schema.rendered import CompactionEntry, MarkEntry
from holdfast.schema.session_message import Time
from holdfast.schema.turn_event import TurnAbandoned
from holdfast.server.render.text import encodable, escaped, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from holdfast.core.event.stored_event import EventRow
    from holdfast.schema.rendered import TextFormat

    _Kind = Literal["abandoned", "interrupted", "moved", "crash", "suspended"]

TITLE = 300
BODY = 4_000
"""Characters of what a provider answered."""
SUSPENDED = "The process was shut down; the next one goes on"
CRASHED = "The process ended before the turn did"


def mark_entries(
    rows: Sequence[EventRow], *, ended: bool, form: TextFormat = "html"
) -> list[MarkEntry | CompactionEntry]:
    """`rows` are oldest first. `ended`: what has begun in them and has no end has it elsewhere."""
    marks: list[MarkEntry | CompactionEntry] = []
    compacting: dict[str, CompactionEntry] = {}
    failed: tuple[int, str] | None = None
    for row in rows:
        try:
            match row.type:
                case "session.next.step.failed.2":
                    failed = row.seq, decoder(ev.StepFailed).decode(row.data).error.message
                case "session.next.compaction.started.1":
                    started: ev.CompactionStarted = decoder(ev.CompactionStarted).decode(row.data)
                    compacting[started.message_id] = CompactionEntry(
                        id=started.message_id,
                        seq=row.seq,
                        time=Time(created=started.timestamp),
                        reason=started.reason,
                        open=True,
                    )
                case "session.next.compaction.failed.1":
                    marks.append(_failed_compaction(row, compacting))
                case _:
                    marks.append(_mark(row, failed, form))
        except msgspec.DecodeError:
            continue  # of a version that this one does not know
    if not ended:
        marks.extend(compacting.values())
    return marks


def _failed_compaction(row: EventRow, compacting: dict[str, CompactionEntry]) -> CompactionEntry:
    failed: ev.CompactionFailed = decoder(ev.CompactionFailed).decode(row.data)
    begun = compacting.pop(failed.message_id, None)
    return CompactionEntry(
        id=failed.message_id,
        seq=begun.seq if begun is not None else row.seq,
        time=Time(created=begun.time.created if begun is not None else failed.timestamp, completed=failed.timestamp),
        reason=begun.reason if begun is not None else "auto",
        error=one_line(failed.error.message, TITLE),
    )


def _mark(row: EventRow, failed: tuple[int, str] | None, form: TextFormat) -> MarkEntry:
    match row.type:
        case "session.next.retried.1":
            retried: ev.Retried = decoder(ev.Retried).decode(row.data)
            title = f"Attempt {retried.attempt} failed: {one_line(retried.error.message, TITLE)}"
            body = (retried.error.response_body or "")[:BODY]
            return MarkEntry(
                id=row.id,
                seq=row.seq,
                time=Time(created=retried.timestamp),
                kind="retry",
                title=title,
                html=f"<pre>{escaped(body)}</pre>" if body and form == "html" else "",
                text=encodable(body) if form == "text" else "",
            )
        case "session.next.turn.abandoned.1":
            abandoned: TurnAbandoned = decoder(TurnAbandoned).decode(row.data)
            return _told(row, abandoned.timestamp, "abandoned", abandoned.reason)
        case "session.next.activity.ended.1":
            ended: ev.ActivityEnded = decoder(ev.ActivityEnded).decode(row.data)
            return _told(row, ended.timestamp, "interrupted", ended.reason)
        case "session.next.moved.1":
            moved: ev.Moved = decoder(ev.Moved).decode(row.data)
            return _told(row, moved.timestamp, "moved", f"Moved to {moved.location.directory}")
    suspended: ev.ActivitySuspended = decoder(ev.ActivitySuspended).decode(row.data)
    if failed is not None and failed[0] == row.seq - 1 and failed[1] != TURN_SUSPENDED:
        return _told(row, suspended.timestamp, "crash", CRASHED)
    return _told(row, suspended.timestamp, "suspended", SUSPENDED)


def _told(row: EventRow, time: int, kind: _Kind, title: str) -> MarkEntry:
    return MarkEntry(id=row.id, seq=row.seq, time=Time(created=time), kind=kind, title=one_line(title, TITLE))
