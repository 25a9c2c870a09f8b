"""Reads of what is needed together: for an admission, and by a drain at its start and at each boundary. Each is one
round trip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.database.read import Read
from holdfast.core.session.ancestors import MOST_ANCESTORS, AncestorRow
from holdfast.core.session.errors import SessionNotFound
from holdfast.core.session.ownership import LeaseRow
from holdfast.core.session.stored_activity import ActivityRow, Dispatch, OpenRequest
from holdfast.core.session.stored_budgets import BudgetRow, Pause
from holdfast.core.session.stored_inputs import InputRow, options_of
from holdfast.core.session.stored_messages import OpenCall, OpenShell, SeqRow
from holdfast.core.session.stored_partials import PartialText, partial_read, partial_texts, with_partials
from holdfast.core.session.stored_sessions import (
    BoundaryRow,
    SessionAtBoundary,
    SessionRow,
    StoredSessions,
    entries_of,
)
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from holdfast.core.database.unit import Row, Value
    from holdfast.core.session.activity import Activity
    from holdfast.core.session.stored_messages import StoredMessage
    from holdfast.schema.instruction import InstructionEntry
    from holdfast.schema.prompt import PromptOptions
    from holdfast.schema.session import Session

STEER_BATCH = 100


class LeftOpen(Frozen):
    """What an earlier drain of a Session began and did not end."""

    calls: Sequence[OpenCall]
    compaction: str | None
    shell: OpenShell | None
    requests: Sequence[OpenRequest]
    partials: Sequence[PartialText]


class BudgetsAtStart(Frozen):
    """What the budgets of a Session said."""

    revision: int
    """Of all budgets."""
    limited: bool
    """Whether the Session or an ancestor has one."""
    refuses: bool
    """Whether one of them has nothing left."""
    paused: bool
    """Whether the Session waits for one."""


class DrainStart(Frozen):
    """What a drain of a Session starts from.

    The lease is read first, and the first commit of the drain takes it in the state that was read. What another process
    committed under the lease before is therefore in the other rows, and one that takes it later makes that commit
    fail. Others may still commit what needs no lease: inputs, changes of the Session, of its budgets. Everything of
    that kind is checked by the commit that relies on it, or is seen at the next boundary."""

    session_id: str
    lease: LeaseRow | None
    wakes: frozenset[str]
    at_boundary: SessionAtBoundary | None
    """None if there is no such Session."""
    activity: Activity | None
    last_dispatch: Dispatch | None
    checkpoint_seq: int
    options: PromptOptions | None
    open: LeftOpen
    has_attachments: bool
    """Whether something is stored beside prompts of the Session."""
    epoch: Row | None
    """As `Epochs.decode` takes it."""
    entries: tuple[InstructionEntry, ...]
    discovered: Sequence[str]
    """Instruction files that the Session discovered at its Location."""
    line: Sequence[AncestorRow]
    """The Session and its ancestors."""
    budget_revision: int
    """Of all budgets."""
    budgets: BudgetsAtStart | None
    """None if they were not read."""

    @property
    def seen(self) -> SessionAtBoundary:
        """Raises SessionNotFound."""
        if self.at_boundary is None:
            raise SessionNotFound(self.session_id)
        return self.at_boundary


class StoredStarts(StoredSessions):
    async def at_boundary(self, session_id: str) -> SessionAtBoundary:
        """The Session, and the inputs that may be promoted now. Raises SessionNotFound."""
        seen = _seen(iter(await self._database.fetch_many(*_boundary(session_id))))
        if seen is None:
            raise SessionNotFound(session_id)
        return seen

    async def left_open(self, session_id: str) -> LeftOpen:
        found = await self._database.fetch_many(*_left_open(session_id))
        return _open(iter(found))

    async def drain_start(self, session_id: str, now: int, *, budgets: bool) -> DrainStart:
        """`budgets` reads those of the Session too."""
        key: dict[str, Value] = {"session_id": session_id}
        reads = (
            Read("lease.get", {**key, "now": now}, LeaseRow),
            Read("inbox.wakes", key),
            *_boundary(session_id),
            Read("activity.range", {"first": session_id, "last": session_id, "limit": 1}, ActivityRow),
            Read("turn.last_dispatch", key, Dispatch),
            Read("message.checkpoint", key, SeqRow),
            Read("inbox.options", key),
            Read("inbox.shared_options", key),
            *_left_open(session_id),
            Read("attachment.any", key),
            Read("context.get", key),
            Read("instruction_entry.list", key),
            Read("instruction.of_session", key),
            Read("session.with_ancestors", {"id": session_id, "most": MOST_ANCESTORS}, AncestorRow),
            Read("budget.revision", {}),
            *(_budgets(key) if budgets else ()),
        )
        rows = iter(await self._database.fetch_many(*reads))
        return DrainStart(
            session_id=session_id,
            lease=_first(rows),
            wakes=frozenset(str(row[0]) for row in next(rows)),
            at_boundary=_seen(rows),
            activity=row.activity() if (row := _first(rows)) is not None else None,
            last_dispatch=_first(rows),
            checkpoint_seq=row.seq if (row := _first(rows)) is not None else -1,
            options=options_of(next(rows), next(rows)),
            open=_open(rows),
            has_attachments=bool(next(rows)),
            epoch=_first(rows),
            entries=entries_of(next(rows)),
            discovered=[str(row[0]) for row in next(rows)],
            line=next(rows),
            budget_revision=(revision := int(_first(rows)[0])),
            budgets=_said(revision, rows) if budgets else None,
        )

    async def for_admission(self, session_id: str, message_id: str | None) -> tuple[Session, bool]:
        """The Session, and whether an input has this id. Raises SessionNotFound."""
        if message_id is None:
            return await self.get(session_id), False
        found, used = await self._database.fetch_many(
            Read("session.get", {"id": session_id}, SessionRow), Read("inbox.exists", {"id": message_id})
        )
        if not found:
            raise SessionNotFound(session_id)
        return found[0].session(), bool(used)

    async def for_people(
        self, session_id: str, read: Callable[[], Awaitable[Sequence[StoredMessage]]]
    ) -> list[StoredMessage]:
        """Messages that `read` returns, with the partial text of open blocks, which is read first: a block that ends
        meanwhile has its whole text in the messages. Raises SessionNotFound."""
        sessions, rows = await self._database.fetch_many(
            Read("session.get", {"id": session_id}, SessionRow), partial_read(session_id)
        )
        if not sessions:
            raise SessionNotFound(session_id)
        return with_partials(await read(), partial_texts(rows))

    async def budgets_at_start(self, session_id: str) -> BudgetsAtStart:
        reads = (Read("budget.revision", {}), *_budgets({"session_id": session_id}))
        rows = iter(await self._database.fetch_many(*reads))
        return _said(int(_first(rows)[0]), rows)


def _boundary(session_id: str) -> tuple[Read, ...]:
    steers: dict[str, Value] = {"session_id": session_id, "delivery": "steer", "limit": STEER_BATCH}
    queued: dict[str, Value] = {"session_id": session_id, "delivery": "queue", "limit": 1}
    return (
        Read("session.at_boundary", {"id": session_id}, BoundaryRow),
        Read("inbox.next", steers, InputRow),
        Read("inbox.next", queued, InputRow),
    )


def _seen(rows: Iterator[list[Any]]) -> SessionAtBoundary | None:
    row: BoundaryRow | None
    row, steers, queued = _first(rows), next(rows), next(rows)
    if row is None:
        return None
    return SessionAtBoundary(
        session=row.session(),
        steer=row.steer,
        queue=row.queue,
        steer_asks=row.steer_asks,
        instructions_seq=row.instructions_seq,
        head=row.head,
        steers=[item.admission() for item in steers if item.admitted_seq <= row.head],
        queued=[item.admission() for item in queued if item.admitted_seq <= row.head],
    )


def _left_open(session_id: str) -> tuple[Read, ...]:
    key = {"session_id": session_id}
    return (
        Read("message.unsettled_tools", key, OpenCall),
        Read("turn.dangling_compaction", key),
        Read("message.open_shell", key, OpenShell),
        Read("request.open_of_session", key, OpenRequest),
        partial_read(session_id),
    )


def _open(rows: Iterator[list[Any]]) -> LeftOpen:
    calls, compaction, shell, requests = next(rows), _first(rows), _first(rows), next(rows)
    partials = partial_texts(next(rows))
    return LeftOpen(calls, str(compaction[0]) if compaction else None, shell, requests, partials)


def _budgets(key: dict[str, Value]) -> tuple[Read, ...]:
    return Read("budget.of_chain", key, BudgetRow), Read("budget.refuses", key), Read("pause.of", key, Pause)


def _said(revision: int, rows: Iterator[list[Any]]) -> BudgetsAtStart:
    return BudgetsAtStart(revision, bool(next(rows)), bool(next(rows)), bool(next(rows)))


def _first(rows: Iterator[list[Any]]) -> Any:
    """The first row of the next answer, if it has any."""
    found = next(rows)
    return found[0] if found else None
