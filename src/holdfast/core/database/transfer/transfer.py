"""Transfers all Sessions of one store to another.

    lock both → agree on the mark → mark the source → mark the target → copy → verify → complete target, then source

Invariants
- From the mark of the source on nobody else changes the rows that are copied, whatever process opened the store when:
  triggers in the store refuse it. So everything can be read at any time, in any number of transactions.
- A group of rows and how far the copy has come are one transaction at the target. A run that was killed at any point is
  gone on with by the next one; nothing is copied twice.
- The target is incomplete until everything in it was compared with the source. Nobody else can open it until then.
- An error leaves both marks as they are, unless nothing was copied yet."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError, TransferRefused
from holdfast.core.database.transfer.mark import BEGUN, COMPLETE, SOURCE, TARGET, Mark, explain
from holdfast.core.database.transfer.store import OwnerRow, Place
from holdfast.core.database.transfer.tables import COPIED, EVENTS
from holdfast.core.database.transfer.verification import check_columns, verify
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.core.database.transfer.store import TransferStore
    from holdfast.core.database.unit import Row, Value

GROUP_ROWS = 2_000
GROUP_BYTES = 4 * 1024 * 1024
"""A group is written when it has so many rows or bytes. One row may be larger."""
UNKNOWN_SECONDS = 10.0
"""How long a database server that has just started may not know who lives."""
LOOK_SECONDS = 0.2

COPYING, VERIFYING = "copying", "verifying"


class Progress(Frozen):
    """How far a transfer has come."""

    phase: str
    table: str
    rows: int
    """Of the table, what earlier runs copied included."""
    all_rows: int
    sessions: int
    """All of them."""
    copied: int
    """Rows of all tables that this run copied."""


class Transferred(Frozen):
    """What a transfer did."""

    source: str
    target: str
    sessions: int
    events: int
    rows: int
    """Of all tables."""
    copied: int
    """Rows that this run copied; the others were there already."""
    seconds: float


class Transfer:
    """`source_lives` and `target_lives` say whether the process of a row lives; None if that is not known yet."""

    def __init__(
        self,
        source: TransferStore,
        target: TransferStore,
        *,
        source_lives: Callable[[OwnerRow], bool | None],
        target_lives: Callable[[OwnerRow], bool | None],
        told: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._source = source
        self._target = target
        self._source_lives = source_lives
        self._target_lives = target_lives
        self._told = told
        self._totals: dict[str, int] = {}
        self._copied = 0

    def run(self) -> Transferred:
        began = time.monotonic()
        source, target = self._source, self._target
        if source.identity == target.identity:
            raise TransferRefused(f"{source.name} and {target.name} are the same store")
        source.lock()
        target.lock()
        mark = self._begin()
        names = (*(table.name for table in COPIED), EVENTS)
        self._totals = {name: source.count(name) for name in names}
        if target.marks()[TARGET].state != COMPLETE:
            check_columns(source, target)
            self._copy()
            target.settle()
            verify(source, target, self._tell_verified)
            target.complete(TARGET)
        if mark.state != COMPLETE:
            source.complete(SOURCE)
        return Transferred(
            source=source.name,
            target=target.name,
            sessions=self._totals["session"],
            events=self._totals[EVENTS],
            rows=sum(self._totals.values()),
            copied=self._copied,
            seconds=time.monotonic() - began,
        )

    def _begin(self) -> Mark:
        """The mark of the source, after both stores have it."""
        source, target = self._source, self._target
        mark, fresh = self._agree()
        theirs = target.marks().get(TARGET)
        if theirs is not None and theirs.id == mark.id:
            if theirs.state == BEGUN:
                target.resume(theirs)
            return mark
        if fresh:
            _without_owners(source, mark, self._source_lives)
        try:
            counterpart = Mark(TARGET, mark.id, source.name, source.identity, BEGUN)
            _without_owners(target, counterpart, self._target_lives)
        except BaseException:
            if fresh:
                source.unmark(SOURCE)
            raise
        return mark

    def _agree(self) -> tuple[Mark, bool]:
        """The mark for the source, and whether it has yet to be written. Raises TransferRefused."""
        source, target = self._source, self._target
        ours, theirs = source.marks(), target.marks()
        if TARGET in ours and ours[TARGET].state != COMPLETE:
            raise TransferRefused(explain(source.name, ours[TARGET]))
        if SOURCE in theirs:
            raise TransferRefused(explain(target.name, theirs[SOURCE]))
        mark, copy = ours.get(SOURCE), theirs.get(TARGET)
        if mark is not None and copy is not None and copy.id == mark.id:
            return mark, False
        if mark is not None and (mark.state == COMPLETE or mark.identity != target.identity):
            raise TransferRefused(explain(source.name, mark))
        abandoned = copy is not None and copy.state == BEGUN
        if abandoned and copy is not None and copy.identity != source.identity:
            raise TransferRefused(explain(target.name, copy))
        if not abandoned and (filled := target.filled_table()) is not None:
            raise TransferRefused(
                f"{target.name} has Sessions already (its table {filled} is not empty); name a new file, database or "
                "schema"
            )
        if mark is not None:
            return mark, False
        return Mark(SOURCE, uuid.uuid4().hex, target.name, target.identity, BEGUN), True

    def _copy(self) -> None:
        source, target = self._source, self._target
        places = target.progress()
        for table in COPIED:
            columns = source.columns(table.name)
            key = [columns.index(name) for name in table.key]
            place = places.get(table.name)
            rows = source.rows(table, columns, place.key if place is not None else None)
            keyed = ((False, tuple(row[at] for at in key), row) for row in rows)
            self._write(table.name, columns, place, keyed)
        columns = source.columns(EVENTS)
        self._write(EVENTS, columns, places.get(EVENTS), self._events(columns, places.get(EVENTS)))

    def _events(self, columns: Sequence[str], place: Place | None) -> Iterator[tuple[bool, tuple[Value, ...], Row]]:
        """A fork begins a group: where events of a group have one position, it must not be that of its source."""
        at_aggregate, at_seq = columns.index("aggregate_id"), columns.index("seq")
        before = place.key if place is not None else None
        for event in self._source.events(columns, before):
            id, seq = event.row[at_aggregate], event.row[at_seq]
            if not (isinstance(id, str) and isinstance(seq, int)):
                raise StorageError(
                    f"{self._source.name} has an event of {id!r} with the sequence {seq!r}, which is no whole number. "
                    "Holdfast writes no such row: remove it, or restore a backup"
                )
            begins = event.fork and (before is None or before[1] != id)
            key = (event.first, id, seq)
            if before is not None and _is_out_of_order(before, key):
                raise StorageError(f"{self._source.name} does not return its events in order")
            yield begins, key, event.row
            before = key

    def _write(
        self,
        table: str,
        columns: Sequence[str],
        place: Place | None,
        rows: Iterable[tuple[bool, tuple[Value, ...], Row]],
    ) -> None:
        """Write rows in groups. Each comes with whether it begins a group, and its key."""
        copied = place.copied if place is not None else 0
        group: list[Row] = []
        size = 0
        last: tuple[Value, ...] = ()

        def write() -> None:
            nonlocal copied, group, size
            copied += len(group)
            self._copied += len(group)
            self._target.write(table, columns, group, Place(last, copied))
            group, size = [], 0
            self._tell(COPYING, table, copied)

        for begins, key, row in rows:
            if group and (begins or len(group) >= GROUP_ROWS or size >= GROUP_BYTES):
                write()
            group.append(row)
            last = key
            size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if group:
            write()

    def _tell_verified(self, table: str, rows: int) -> None:
        self._tell(VERIFYING, table, rows)

    def _tell(self, phase: str, table: str, rows: int) -> None:
        total, sessions = self._totals[table], self._totals["session"]
        self._told(Progress(phase, table, rows, total, sessions, self._copied))


def _is_out_of_order(before: tuple[Value, ...], key: tuple[int, str, int]) -> bool:
    (first, id, seq), (next_first, next_id, next_seq) = before, key
    assert isinstance(first, int)
    assert isinstance(seq, int)
    return next_first < first or (next_id == id and next_seq <= seq)


def cancel(store: TransferStore) -> Mark | None:
    """Take back the mark that keeps a store from being used; None if it has none. An incomplete copy is emptied."""
    store.lock()
    marks = store.marks()
    mark = marks.get(SOURCE) or marks.get(TARGET)
    if mark is None or (mark.role == TARGET and mark.state == COMPLETE):
        return None
    store.unmark(mark.role)
    return mark


def _without_owners(store: TransferStore, mark: Mark, lives: Callable[[OwnerRow], bool | None]) -> None:
    """Mark a store if no process serves or executes there. One that the server cannot judge yet is waited for."""
    until = time.monotonic() + UNKNOWN_SECONDS
    while True:
        try:
            store.mark(mark, lambda owners: _refuse_living(store.name, owners, lives))
            return
        except _NotKnown as error:
            if time.monotonic() > until:
                raise TransferRefused(str(error)) from None
            time.sleep(LOOK_SECONDS)


class _NotKnown(StorageError):
    """Whether a process lives is not known yet."""


def _refuse_living(name: str, owners: list[OwnerRow], lives: Callable[[OwnerRow], bool | None]) -> None:
    judged = [(owner, lives(owner)) for owner in owners]
    living = [owner for owner, alive in judged if alive]
    if living:
        raise TransferRefused(
            f"{name} is in use by {', '.join(map(_described, living))}; stop it first, then run the same command again"
        )
    unknown = [owner for owner, alive in judged if alive is None]
    if unknown:
        raise _NotKnown(f"the server of {name} cannot tell whether {_described(unknown[0])} still runs; try again")


def _described(owner: OwnerRow) -> str:
    return f"the server {owner.name} (process {owner.pid})" if owner.name else f"process {owner.pid}"
