"""A flight: any number of units as one transaction in one round trip.

    begin
    the writer's row         says which flight this is; not the expected one: fenced
    locks                    budgets, lineage, new aggregates, heads, totals; each kind in the order of its keys
    each unit                before, fence, advance, projections, local, events
    groups of units          the same, a statement at a time for all of them (`batch.py`)
    commit

Invariants
- What a unit checks comes after its locks, in a later statement: a statement sees what was committed before it began.
- The row of the writer is changed first and only from the flight before. So a flight that was given up can never commit
  after its writer has looked at the row (`Course.resolve`).
- A flight is committed if and only if the server answered `COMMIT`."""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from psycopg.pq import ExecStatus

from holdfast.core.database.postgres.batch import FEWEST, Batches, Group
from holdfast.core.database.postgres.errors import EXPECTATION, StatementFailed, failure
from holdfast.core.database.postgres.statement import (
    HEAD,
    HEAD_NAME,
    NO_BUDGETS,
    RESHAPES,
    Compiled,
    Statements,
    encode,
    encode_array,
)
from holdfast.core.database.unit import Committed, Statement, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg.pq.abc import PGresult

    from holdfast.core.database.postgres.connection import Connection
    from holdfast.core.database.unit import NewEvent, Value

BEGIN = Compiled("begin")
COMMIT = Compiled("commit")
ROLLBACK = Compiled("rollback")
REGISTER = Compiled("insert into holdfast_writer (id, flight) values ($1, $2::bigint) on conflict (id) do nothing")
TAKE_OFF = Compiled("""
with changed as (
  update holdfast_writer set flight = $2::bigint, time_updated = now()
  where id = $1 and flight = $3::bigint returning 1)
select 1 / ((select count(*) from changed) = 1)::int
""")
ADVISORY = Compiled("select pg_advisory_xact_lock($1::int, key) from unnest($2::int[]) key")
HEADS = Compiled("""
with heads as (
  select aggregate_id from event_sequence where aggregate_id = any ($1::text[]) order by aggregate_id for update)
select 1 / (count(*) filter (where aggregate_id = any ($2::text[])) = cardinality($2::text[]))::int from heads
""")
"""Locks the heads that there are, and fails if a known one is gone."""
MOVE = Compiled("""
update event_sequence set seq = seq + $2::bigint where aggregate_id = $1
returning seq, set_config('holdfast.head', seq::text, true)
""")
"""`event.advance` for a head that is there."""
MOVE_FENCED = Compiled("""
update event_sequence set seq = seq + $2::bigint where aggregate_id = $1
returning seq, set_config('holdfast.head', seq::text, true), 1 / (exists (
  select 1 from session_lease where session_id = $3 and owner_id = $4 and token = $5::bigint))::int
""")
"""`lease.fence` and `event.advance` for a head that is there. Nearly all commits of a drain have both."""
COUNTING = Compiled("select pg_advisory_xact_lock_shared($1::int, 1)")
RESHAPING = Compiled("select pg_advisory_xact_lock($1::int, 1)")
TOTALS = Compiled("""
with recursive chain (id) as (
  select unnest($1::text[]) collate "C"
  union select above.parent_id from chain
  cross join lateral (select parent_id from session where id = chain.id and parent_id is not null offset 0) above)
select 1 from budget_total where budget_id in (select id from chain) order by budget_id for update
""")
REPLAYABLE = Compiled("""
select 1 / (coalesce((select seq from event_sequence where aggregate_id = $1), -1) = $2::bigint - 1 and coalesce((
  select owner_id is null or owner_id is not distinct from $3 from event_sequence where aggregate_id = $1), true))::int
""")
UNMOVED = Compiled("""
select 1 / (coalesce((select seq from event_sequence where aggregate_id = $1), -1) = $2::bigint)::int
""")

LINEAGE_KEY, FIRST_KEY = 0, 2  # 1 is that of budgets
ROWS_PER_INSERT = 16
KNOWN_LIMIT = 50_000

# What a step of a unit is for.
BEFORE, FENCE, REPLAY, ADVANCE, APPEND, CHECK = range(6)


class Step(NamedTuple):
    compiled: Compiled
    values: list[bytes | None]
    stage: int
    statement: Statement | None = None


class Plan(NamedTuple):
    """A unit as steps. Made before anything is sent: a value that cannot be sent concerns its own unit alone."""

    unit: Unit
    steps: list[Step]
    advance: int | None
    """The place of the step that returns the last sequence."""
    budgets: int
    """What it does to budgets: nothing, counting, or changing which there are."""

    def moving(self) -> Plan:
        """The same for an aggregate whose head is locked already."""
        place = self.advance
        if place is None:
            return self
        step, before = self.steps[place], self.steps[place - 1] if place else None
        if before is None or before.stage != FENCE:
            steps = [*self.steps[:place], step._replace(compiled=MOVE), *self.steps[place + 1 :]]
            return self._replace(steps=steps)
        moved = Step(MOVE_FENCED, [*step.values, *before.values], FENCE)
        return self._replace(steps=[*self.steps[: place - 1], moved, *self.steps[place + 1 :]], advance=place - 1)


class Failure(NamedTuple):
    """Which step of which plan failed; `plan` is None when it was none of a unit."""

    plan: int | None
    step: Step | None
    error: StatementFailed
    fenced: bool = False
    """The row of the writer was not as expected."""


class Planner:
    def __init__(self, statements: Statements) -> None:
        self._get = statements.get

    def plan(self, unit: Unit) -> Plan:
        steps = [self._step(statement, BEFORE) for statement in unit.before]
        if (fence := unit.fence) is not None:
            compiled = self._get("lease.fence", False, None, True)
            key: dict[str, Value] = {"session_id": fence.session_id, "owner_id": fence.owner_id, "token": fence.token}
            steps.append(Step(compiled, compiled.values(key), FENCE))
        advance = None
        aggregate = encode(unit.aggregate_id)
        if unit.rebuild:
            self._add_rebuild(steps, unit, aggregate)
        elif not unit.events:
            steps.extend(self._step(statement, BEFORE) for statement in unit.local)
        else:
            self._add_beginning(steps, unit, aggregate)
            advance = len(steps)
            self._add_events(steps, unit, aggregate)
        return Plan(unit, steps, advance, max((step.compiled.budgets for step in steps), default=NO_BUDGETS))

    def _step(self, statement: Statement, stage: int) -> Step:
        compiled = self._get(statement.name, False, statement.changes, statement.found)
        return Step(compiled, compiled.values(statement.params), stage, statement)

    def _add_beginning(self, steps: list[Step], unit: Unit, aggregate: bytes | None) -> None:
        if (begins_at := unit.events[0].begins_at) is not None:
            steps.append(self._named("event.begin", {"aggregate_id": unit.aggregate_id, "seq": begins_at - 1}))
        if (replay := unit.replay) is not None:
            steps.append(Step(REPLAYABLE, [aggregate, encode(replay.seq), encode(replay.owner_id)], REPLAY))
            if replay.owner_id is not None:
                steps.append(
                    self._named("event.claim", {"aggregate_id": unit.aggregate_id, "owner_id": replay.owner_id})
                )

    def _named(self, name: str, params: dict[str, Value], stage: int = BEFORE) -> Step:
        compiled = self._get(name)
        return Step(compiled, compiled.values(params), stage)

    def _add_events(self, steps: list[Step], unit: Unit, aggregate: bytes | None) -> None:
        get = self._get
        steps.append(
            self._named("event.advance", {"aggregate_id": unit.aggregate_id, "size": len(unit.events)}, ADVANCE)
        )
        back = len(unit.events)
        for event in unit.events:
            back -= 1
            for statement in event.projections:
                compiled = get(statement.name, True, statement.changes, statement.found)
                values = compiled.values(statement.params)
                if compiled.relative:
                    values += (b"%d" % back, HEAD_NAME)
                steps.append(Step(compiled, values, APPEND, statement))
        for statement in unit.local:
            compiled = get(statement.name, True, statement.changes, statement.found)
            values = compiled.values(statement.params)
            if compiled.relative:
                values += (b"0", HEAD_NAME)
            steps.append(Step(compiled, values, APPEND, statement))
        for start in range(0, len(unit.events), ROWS_PER_INSERT):
            rows = unit.events[start : start + ROWS_PER_INSERT]
            steps.append(_append(rows, aggregate, len(unit.events) - start - len(rows)))

    def _add_rebuild(self, steps: list[Step], unit: Unit, aggregate: bytes | None) -> None:
        last = -1
        for event in unit.events:
            assert event.seq is not None
            last = event.seq
            for statement in event.projections:
                if not statement.operational:
                    compiled = self._get(statement.name, False, statement.changes, statement.found)
                    values = compiled.values({**statement.params, "seq": last})
                    steps.append(Step(compiled, values, BEFORE, statement))
        steps.append(Step(UNMOVED, [aggregate, encode(last)], CHECK))


class Flight:
    """Sends plans over a connection, and reads what became of them."""

    def __init__(self, writer_id: str, lock_class: int, batches: Batches) -> None:
        self._writer_id = encode(writer_id)
        self._lock_class = encode(lock_class)
        self._batches = batches
        self._known: set[str] = set()
        """Aggregates that have a head, so that locking the head is enough."""

    def fly(self, connection: Connection, plans: Sequence[Plan], number: int, after: int) -> list[Committed] | Failure:
        """Commit the plans as flight `number`, the next one after the flight `after`. Raises ConnectionLost, after
        which the outcome is unknown."""
        return self._fly(connection, plans, number, after, grouped=len(plans) >= FEWEST)

    def _fly(
        self, connection: Connection, plans: Sequence[Plan], number: int, after: int, *, grouped: bool
    ) -> list[Committed] | Failure:
        connection.queue(BEGIN, ())
        connection.queue_settings()
        first = 2
        if not after:
            connection.queue(REGISTER, (self._writer_id, b"0"))
            first += 1
        connection.queue(TAKE_OFF, (self._writer_id, encode(number), encode(after)))
        aggregates = {id for plan in plans for id in (plan.unit.aggregate_id, *plan.unit.locks)}
        known = aggregates & self._known
        first += self._queue_locks(connection, plans, aggregates, known)
        parts: Sequence[Plan | Group] = self._batches.arrange(plans, known) if grouped else plans
        grouped = len(parts) < len(plans)
        sent = [_queue(connection, part, known) for part in (parts if grouped else plans)]
        connection.queue(COMMIT, ())
        results = connection.exchange()
        if results[-1].command_status == b"COMMIT":
            self._note_heads(plans)
            return _committed(results, plans, sent, first)
        connection.queue(ROLLBACK, ())
        connection.exchange()
        place = next((place for place, result in enumerate(results) if result.status == ExecStatus.FATAL_ERROR), None)
        if place is None:
            return Failure(None, None, StatementFailed("40000", "the server rolled the transaction back"))
        error = failure(results[place])
        if place >= first:
            if grouped:
                return self._fly(connection, plans, number, after, grouped=False)
            return _failure(error, sent, place - first)
        fenced = error.sqlstate == EXPECTATION and place == (1 if after else 2)
        if known and not fenced and error.sqlstate == EXPECTATION:
            self._known -= known  # one of them was removed
            return self._fly(connection, plans, number, after, grouped=False)
        return Failure(None, None, error, fenced=fenced)

    def _queue_locks(self, connection: Connection, plans: Sequence[Plan], aggregates: set[str], known: set[str]) -> int:
        """Locks come in this order everywhere, so that flights do not wait for each other in a circle."""
        keys = {zlib.crc32(id.encode()) | FIRST_KEY for id in aggregates - known}
        if any(plan.unit.shares_lineage for plan in plans):
            keys.add(LINEAGE_KEY)
        count = 1
        counting = {plan.unit.aggregate_id for plan in plans if plan.budgets}
        if counting:
            reshaped = any(plan.budgets == RESHAPES for plan in plans)
            connection.queue(RESHAPING if reshaped else COUNTING, (self._lock_class,))
            count += 1
        if keys:
            signed = sorted(key - (1 << 32) if key >= 1 << 31 else key for key in keys)
            connection.queue(ADVISORY, (self._lock_class, b"{%s}" % b",".join(b"%d" % key for key in signed)))
            count += 1
        connection.queue(HEADS, (encode_array(aggregates), encode_array(known)))
        if counting:
            connection.queue(TOTALS, (encode_array(counting),))
            count += 1
        return count

    def _note_heads(self, plans: Sequence[Plan]) -> None:
        if len(self._known) > KNOWN_LIMIT:
            self._known.clear()
        self._known.update(plan.unit.aggregate_id for plan in plans if plan.advance is not None)


class Sent(NamedTuple):
    part: Plan | Group
    steps: Sequence[Step]
    """Of a single unit."""
    size: int
    """How many statements it was."""
    advance: int | None
    """Which of them returned the new heads."""


def _queue(connection: Connection, part: Plan | Group, known: set[str]) -> Sent:
    if isinstance(part, Group):
        statements = list(part.statements())
        for compiled, values in statements:
            connection.queue(compiled, values)
        return Sent(part, (), len(statements), part.advance)
    plan = part.moving() if part.unit.aggregate_id in known else part
    for step in plan.steps:
        connection.queue(step.compiled, step.values)
    return Sent(part, plan.steps, len(plan.steps), plan.advance)


def _committed(results: list[PGresult], plans: Sequence[Plan], sent: Sequence[Sent], place: int) -> list[Committed]:
    heads: dict[int, int] = {}
    for part, _, size, advance in sent:
        if advance is not None:
            moved = part.moved if isinstance(part, Group) else [part]
            value = results[place + advance].get_value(0, 0)
            assert value is not None
            heads.update(zip(map(id, moved), map(int, value.strip(b"{}").split(b",")), strict=True))
        place += size
    return [_outcome(plan, heads) for plan in plans]


def _outcome(plan: Plan, heads: Mapping[int, int]) -> Committed:
    if plan.advance is not None:
        last = heads[id(plan)]
        return Committed(last - len(plan.unit.events) + 1, last)
    if plan.unit.rebuild:
        return Committed(0, max((event.seq or 0 for event in plan.unit.events), default=-1))
    return Committed(-1, -1)


def _failure(error: StatementFailed, sent: Sequence[Sent], place: int) -> Failure:
    """Which step of which plan failed, in a flight without groups."""
    for index, part in enumerate(sent):
        if place < part.size:
            return Failure(index, part.steps[place], error)
        place -= part.size
    return Failure(None, None, error)


def _append(events: Sequence[NewEvent], aggregate: bytes | None, back: int) -> Step:
    values = [aggregate, b"%d" % back]
    for event in events:
        values += (encode(event.id), encode(event.type), encode(event.data), encode(event.metadata))
    return Step(_insert(len(events)), values, APPEND)


@cache
def _insert(count: int) -> Compiled:
    """Inserts events of one aggregate, $1, of which $2 more follow."""
    head = f"current_setting('{HEAD}')::bigint - $2::bigint"
    rows = (
        f"(${n}::text, $1, {head} - {count - 1 - index}, ${n + 1}::text, ${n + 2}::text, ${n + 3}::text)"
        for index, n in enumerate(range(3, 3 + 4 * count, 4))
    )
    return Compiled("insert into event (id, aggregate_id, seq, type, data, metadata) values " + ", ".join(rows))
