"""Who admitted, answered and changed what in a tree of Sessions: from the metadata of their events, and from the rows
of requests that leave no event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.event.author import BY
from holdfast.core.event.imported_events import imported_ranges, is_imported
from holdfast.schema.audit import AuditEntry
from holdfast.schema.codec import decoder
from holdfast.schema.ids import time_of_id
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from holdfast.core.access.audit_trail import AuditTrail
    from holdfast.core.database.database import Reads
    from holdfast.core.event.imported_events import ImportedRange
    from holdfast.core.event.log import EventLog
    from holdfast.schema.event import SerializedEvent
    from holdfast.schema.manifest import Manifest

PAGE = 500
CHARACTERS = 200
"""Of a title or a command that is shown."""
DIGEST_CHARACTERS = 12
"""Of the digest of a bundle that are shown."""
PREFIX = "session.next."
WORDS = {
    "agent.switched": "changed agent",
    "model.switched": "changed model",
    "moved": "moved",
    "prompt.admitted": "admitted",
    "shell.started": "ran a command",
    "compaction.started": "compacted",
    "compaction.undone": "undid a compaction",
    "revert.staged": "staged a revert",
    "revert.cleared": "cleared a revert",
    "revert.committed": "committed a revert",
    "input.withdrawn": "withdrew",
    "input.delivery.changed": "changed delivery",
    "instruction.entry.put": "put an instruction",
    "instruction.entry.removed": "removed an instruction",
    "turn.abandoned": "abandoned a turn",
    "budget.set": "set the budget",
    "permission.replied": "approved",
    "question.replied": "answered a question",
    "question.rejected": "rejected a question",
    "form.replied": "answered a form",
    "form.cancelled": "cancelled a form",
}


class _Time(Record):
    created: int
    archived: int | None = None


class _Fork(Record):
    session_id: str


class _Info(Record):
    title: str
    time: _Time
    fork: _Fork | None = None


class _Fields(Record):
    """What is told of the payloads; everything else in them is passed over."""

    timestamp: int | None = None
    message_id: str | None = None
    request_id: str | None = None
    key: str | None = None
    agent: str | None = None
    model: ModelRef | None = None
    location: Location | None = None
    delivery: str | None = None
    type: str | None = None
    command: str | None = None
    reply: str | None = None
    cause: str | None = None
    reason: str | None = None
    budget: Any = None
    info: _Info | None = None


class SessionAudit:
    def __init__(
        self,
        log: EventLog,
        database: Reads,
        manifest: Manifest,
        trail: AuditTrail,
        member_ids: Callable[[str], Awaitable[list[str]]],
    ) -> None:
        """`member_ids` finds the Sessions of a tree."""
        self._log = log
        self._database = database
        self._types = tuple(kind for kind, definition in manifest.stored.items() if definition.attributed)
        self._trail = trail
        self._member_ids = member_ids

    async def of_tree(self, session_id: str, most: int) -> list[AuditEntry]:
        """The first entries of a Session and its descendants, oldest first."""
        ids = await self._member_ids(session_id)
        entries = await self._trail.of_sessions(ids)
        for id in ids:
            entries += await self._of_session(id, most)
        entries.sort(key=lambda entry: entry.time)
        return entries[:most]

    async def _of_session(self, id: str, most: int) -> list[AuditEntry]:
        imported = await imported_ranges(self._database, id)
        found = [_import(id, each) for each in imported]
        after, known = -1, None
        while len(found) < most:
            page = await self._log.serialized(id, after=after, limit=PAGE, types=self._types)
            for event in page:
                fields: _Fields = decoder(_Fields).decode(event.data)
                elsewhere = is_imported(event.seq, imported)
                found += _entries(event, fields, known, elsewhere=elsewhere)
                known = fields.info or known
            if len(page) < PAGE:
                break
            after = page[-1].seq
        return found


def _import(session_id: str, imported: ImportedRange) -> AuditEntry:
    return AuditEntry(
        time=imported.time,
        who=imported.author,
        what="imported",
        session_id=session_id,
        detail=f"events {imported.first_seq} to {imported.last_seq} of {imported.digest[:DIGEST_CHARACTERS]}",
    )


def _entries(event: SerializedEvent, fields: _Fields, known: _Info | None, *, elsewhere: bool) -> Iterator[AuditEntry]:
    """`known` is the Session as the event before told it; `elsewhere`, the event was imported."""
    time = fields.timestamp
    if time is None:  # of events with the whole record
        time = time_of_id(event.id, fields.info.time.created if fields.info is not None else 0)
    who = (event.metadata or {}).get(BY)
    for what, detail in _told(event.type.rpartition(".")[0], fields, known):
        yield AuditEntry(
            time=time,
            who=str(who) if who is not None else None,
            what=what,
            session_id=event.aggregate_id,
            subject=fields.message_id or fields.request_id or fields.key,
            detail=detail[:CHARACTERS] if detail is not None else None,
            elsewhere=elsewhere or None,
        )


def _told(kind: str, fields: _Fields, known: _Info | None) -> Iterator[tuple[str, str | None]]:
    name = kind.removeprefix(PREFIX)
    info = fields.info
    if name == "session.updated" and info is not None:
        yield from _changes(info, known)
    elif name == "session.created" and info is not None:
        yield "created", f"fork of {info.fork.session_id}" if info.fork is not None else None
    elif name == "session.deleted":
        yield "deleted", None
    elif name == "permission.replied":
        yield "denied" if fields.reply == "reject" else "approved", fields.cause or fields.reply
    elif name == "compaction.started":
        if fields.reason == "manual":
            yield WORDS[name], None
    elif name == "budget.set" and fields.budget is None:
        yield "removed the budget", None
    elif name in WORDS:
        yield WORDS[name], _detail(fields)


def _changes(info: _Info, known: _Info | None) -> Iterator[tuple[str, str | None]]:
    if known is None or info.title != known.title:
        yield "changed title", info.title
    archived = known.time.archived if known is not None else None
    if (info.time.archived is None) != (archived is None):
        yield "archived" if info.time.archived is not None else "restored", None


def _detail(fields: _Fields) -> str | None:
    if fields.model is not None:
        return f"{fields.model.provider_id}/{fields.model.id}"
    if fields.location is not None:
        return fields.location.directory
    return fields.command or fields.cause or fields.type or fields.agent or fields.delivery
