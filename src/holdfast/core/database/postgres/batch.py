"""Batches: what several units of one flight have in common is sent as one statement with a row for each unit.

A statement costs the server more to begin and to end than to find its row. The statements named here are derived from
those of single units: `:name` becomes a column of the arrays that the batch is given, and the rest runs for each row.

Invariants
- A group has one unit for each aggregate, and none that relies on other aggregates (`Unit.locks`, lineage, budgets).
  So its units commute, and their statements may be interleaved; those of one unit keep their order.
- A batch finds for each row what the statement of one unit would find, by the same plan: the inner query has an
  `offset 0`, which keeps the planner from beginning at the table.
- A batch that fails does not say for which unit. The flight is then sent again without groups, so groups decide
  neither who fails nor with what."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.database.postgres.statement import HEAD_NAME, TOKEN, Compiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.core.database.postgres.flight import Plan, Step

FEWEST = 3
"""Units that make a group, and rows that make a batch. Fewer are sent one by one."""
SHAPES_LIMIT = 10_000

BATCHED = (
    "session.exists",
    "inbox.overfull",
    "inbox.exists",
    "inbox.insert",
    "message.exists",
    "inbox.adopt",
    "inbox.promote",
    "inbox.woken",
    "blocked.clear",
    "message.close_newest_assistant",
    "message.insert",
    "activity.begin",
    "message.note_assistant",
    "turn.answer",
    "part.supersede",
    "part.add",
    "part.tool_input",
    "part.tool_called",
    "part.tool_success",
    "part.tool_failed",
    "part.end_text",
    "part.end_reasoning",
    "message.end_step",
    "session.add_step_usage",
    "turn.end",
    "activity.step_ended",
    "inbox.end",
    "turn.dispatch",
    "activity.dispatch",
    "work.add",
    "lease.release",
)
"""Statements that change and look at rows of one Session, or look for an id. With an expectation they change at most
one row. In the usual order within a unit, so that units of different kinds come to the same statement together."""

_RANK = {name: rank for rank, name in enumerate(BATCHED)}
_TYPES = dict.fromkeys(
    (
        "attempt",
        "cache_read",
        "cache_write",
        "executed",
        "input",
        "limit",
        "no_reply",
        "output",
        "reasoning",
        "seq",
        "time",
        "timestamp",
        "token",
    ),
    "::bigint",
) | {"cost": "::double precision"}
"""Of parameters that are no texts."""
_SEQ = "(current_setting(p.p_head)::bigint - p.p_back::bigint)"
_ARRAY, _LENGTH, _NULL = struct.Struct(">5i"), struct.Struct(">i"), struct.pack(">i", -1)
_LENGTHS = [_LENGTH.pack(size) for size in range(1024)]
_TEXT = 25

MOVE_ALL = Compiled(
    """
with moved as (
  update event_sequence set seq = seq + p.size::bigint
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) with ordinality
    p (aggregate_id, size, session_id, owner_id, token, place)
  cross join lateral (
    select ctid as row_place from event_sequence where aggregate_id = p.aggregate_id offset 0) r
  where event_sequence.ctid = r.row_place
  returning p.place, event_sequence.seq, 1 / (p.session_id is null or exists (
    select 1 from session_lease l
    where l.session_id = p.session_id and l.owner_id = p.owner_id and l.token = p.token::bigint))::int as fenced)
select array_agg(seq order by place), 1 / (count(fenced) = cardinality($1::text[]))::int,
  count(set_config('holdfast.head' || place, seq::text, true)) from moved
""",
    binary=True,
)
"""`event.advance`, and `lease.fence` where there is one, for heads that are there. Returns them in their order."""
APPEND_ALL = Compiled(
    """
insert into event (id, aggregate_id, seq, type, data, metadata)
select p.id, p.aggregate_id, current_setting(p.head)::bigint - p.back::bigint, p.type, p.data, p.metadata
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
  p (id, type, data, metadata, aggregate_id, back, head)
""",
    binary=True,
)


class Batch(NamedTuple):
    """A statement for any number of rows, and its place in the usual order."""

    rank: int
    compiled: Compiled


class Shape(NamedTuple):
    """How units with the same statements are sent."""

    first: int
    """So many steps are sent as they are, before the heads are moved."""
    steps: tuple[int, ...]
    """The places of the steps that are sent in batches."""
    batches: tuple[Batch, ...]
    """The batch of each."""


class Group:
    """Units that are sent together."""

    def __init__(self, members: Sequence[tuple[Plan, Shape]]) -> None:
        self._members = members
        self.moved = [plan for plan, _ in members if plan.advance is not None]
        """Those that have events."""
        self.advance = sum(shape.first for _, shape in members) if self.moved else None
        """The place of the statement that returns their heads."""

    def statements(self) -> Iterator[tuple[Compiled, Sequence[bytes | None]]]:
        """What to send, in order."""
        units: dict[Shape, list[tuple[list[Step], bytes]]] = {}
        heads: list[Sequence[bytes | None]] = []
        events: list[Sequence[bytes | None]] = []
        for plan, shape in self._members:
            for step in plan.steps[: shape.first]:
                yield step.compiled, step.values
            setting = b"%b%d" % (HEAD_NAME, len(heads) + 1)
            units.setdefault(shape, []).append((plan.steps, setting))
            if plan.advance is not None:
                heads.append(_head(plan, plan.advance))
                events += _events(plan, plan.advance, setting)
        if heads:
            yield MOVE_ALL, _columns(heads)
        yield from _in_batches(units)
        if events:
            yield APPEND_ALL, _columns(events)


class Batches:
    """Finds the groups in a flight."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self._queries = queries
        self._batches: dict[Compiled, Batch | None] = {}
        self._shapes: dict[tuple[object, ...], Shape | None] = {}

    def arrange(self, plans: Sequence[Plan], known: set[str]) -> list[Plan | Group]:
        """The plans in an order that comes to the same, with groups where there are any. Heads of `known` are there."""
        arranged: list[Plan | Group] = []
        members: dict[str, tuple[Plan, Shape]] = {}
        for plan in plans:
            unit = plan.unit
            relies_on_others = unit.locks or unit.shares_lineage or plan.budgets
            if relies_on_others or unit.aggregate_id in members:
                _close(arranged, members)
            shape = None if relies_on_others or unit.aggregate_id not in known else self._shape(plan)
            if shape is None:
                arranged.append(plan)
            else:
                members[unit.aggregate_id] = plan, shape
        _close(arranged, members)
        return arranged

    def _shape(self, plan: Plan) -> Shape | None:
        """How the unit is sent in a group, if it can be in one."""
        key = (plan.unit.fence is None, *[step.compiled for step in plan.steps])
        try:
            return self._shapes[key]
        except KeyError:
            if len(self._shapes) >= SHAPES_LIMIT:
                self._shapes.clear()
            shape = self._shapes[key] = self._new_shape(plan)
            return shape

    def _new_shape(self, plan: Plan) -> Shape | None:
        unit, steps = plan.unit, plan.steps
        if unit.rebuild or unit.replay is not None or (unit.events and unit.events[0].begins_at is not None):
            return None
        before, after = range(len(steps)), range(0)
        if plan.advance is not None:
            before = range(plan.advance - (unit.fence is not None))
            after = range(plan.advance + 1, len(steps) - _inserts(plan, plan.advance))
        batches = {place: self._batch(steps[place]) for place in (*before, *after)}
        first = 0 if all(batches[place] for place in before) else len(before)
        chosen = {place: batch for place, batch in batches.items() if batch is not None and place >= first}
        if len(chosen) < len(batches) - first or (plan.advance is None and first):
            return None
        return Shape(first, tuple(chosen), tuple(chosen.values()))

    def _batch(self, step: Step) -> Batch | None:
        if step.compiled not in self._batches:
            self._batches[step.compiled] = self._new_batch(step)
        return self._batches[step.compiled]

    def _new_batch(self, step: Step) -> Batch | None:
        statement, compiled = step.statement, step.compiled
        if statement is None or statement.name not in _RANK or statement.changes not in (None, 1):
            return None
        sql = for_each_row(
            self._queries[statement.name],
            compiled.names,
            relative=compiled.relative,
            changes=statement.changes,
            found=statement.found,
        )
        return Batch(_RANK[statement.name], Compiled(sql, binary=True))


def _close(arranged: list[Plan | Group], members: dict[str, tuple[Plan, Shape]]) -> None:
    if len(members) < FEWEST:
        arranged += [plan for plan, _ in members.values()]
    else:
        arranged.append(Group(list(members.values())))
    members.clear()


def _in_batches(
    units: Mapping[Shape, Sequence[tuple[list[Step], bytes]]],
) -> Iterator[tuple[Compiled, Sequence[bytes | None]]]:
    """The steps of units, which come with the setting that holds the head. What is first in the usual order is sent
    first, for all units that have come to it."""
    left = {shape: list(zip(shape.steps, shape.batches, strict=True)) for shape in units}
    while left := {shape: steps for shape, steps in left.items() if steps}:
        _, batch = min((steps[0] for steps in left.values()), key=_rank)
        rows: list[Sequence[bytes | None]] = []
        single = batch.compiled
        for shape, steps in left.items():
            if steps[0][1] is batch:
                place, _ = steps.pop(0)
                members = units[shape]
                single = members[0][0][place].compiled
                if single.relative:
                    rows += [[*own[place].values[:-1], setting] for own, setting in members]
                else:
                    rows += [own[place].values for own, _ in members]
        if len(rows) < FEWEST:
            for row in rows:
                yield single, row
        else:
            yield batch.compiled, _columns(rows)


def for_each_row(
    sql: str, names: Sequence[str], *, relative: bool, changes: int | None = None, found: bool | None = None
) -> str:
    """The statement for the rows of arrays, one array for each name. `relative`: two more, how many events of the
    aggregate follow, and the name of the setting that holds its head. It fails unless what is expected holds for all
    rows."""
    columns = [*names, "back", "head"] if relative else names
    arrays = ", ".join(f"${number}::text[]" for number in range(1, len(columns) + 1))
    rows = f"unnest({arrays}) p ({', '.join(f'p_{name}' for name in columns)})"

    def column(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0]
        return _SEQ if relative and name == "seq" else f"p.p_{name}{_TYPES.get(name, '')}"

    sql = TOKEN.sub(column, sql).strip()
    if found is not None:
        looked = sql if " offset " in sql else f"{sql} offset 0"
        wanted = "true" if found else "false"
        return f"select count(*) from {rows} where 1 / (exists ({looked}) = {wanted})::int = 1"
    written = _write(sql, rows)
    if changes is None:
        return written
    return f"""with changed as ({written} returning 1)
select 1 / ((select count(*) from changed) = cardinality($1::text[]))::int"""


def _write(sql: str, rows: str) -> str:
    kind, table = re.match(r"(insert into|update|delete from) (\w+)", sql).groups()  # type: ignore[union-attr]
    if kind == "insert into":
        values, conflict = _split(sql, "on conflict")
        head, row = _split(values, "values")
        if row:
            row = row.removeprefix("values").strip()[1:-1]
            return f"{head}select {row} from {rows} {conflict}"
        head, query = _split(values, "select")
        return f"{head}select r.* from {rows} cross join lateral ({query} offset 0) r {conflict}"
    head, condition = _split(sql, "where")
    joined = "using" if kind == "delete from" else "from"
    return f"""{head}{joined} {rows}
cross join lateral (select ctid as row_place from {table} {condition} offset 0) r where {table}.ctid = r.row_place"""


def _split(sql: str, word: str) -> tuple[str, str]:
    """Before and from a word that is in no parentheses."""
    depth = 0
    for found in re.finditer(rf"[()]|\b{word}\b", sql):
        if found[0] == word and not depth:
            return sql[: found.start()], sql[found.start() :]
        depth += {"(": 1, ")": -1}.get(found[0], 0)
    return sql, ""


def _rank(step: tuple[int, Batch]) -> int:
    return step[1].rank


def _inserts(plan: Plan, advance: int) -> int:
    """How many steps insert events. They are the last ones."""
    return sum(step.statement is None for step in plan.steps[advance + 1 :])


def _head(plan: Plan, advance: int) -> Sequence[bytes | None]:
    fence = (None, None, None) if plan.unit.fence is None else plan.steps[advance - 1].values
    return [*plan.steps[advance].values, *fence]


def _events(plan: Plan, advance: int, setting: bytes) -> Iterator[Sequence[bytes | None]]:
    back = len(plan.unit.events)
    for step in plan.steps[len(plan.steps) - _inserts(plan, advance) :]:
        aggregate, _, *values = step.values
        for start in range(0, len(values), 4):
            back -= 1
            yield (*values[start : start + 4], aggregate, b"%d" % back, setting)


def _columns(rows: Sequence[Sequence[bytes | None]]) -> list[bytes | None]:
    return [_array(column) for column in zip(*rows, strict=True)]


def _array(values: Sequence[bytes | None]) -> bytes:
    """Texts in the binary format of an array of one dimension."""
    parts = [_ARRAY.pack(1, 1, _TEXT, len(values), 1)]
    add = parts.append
    for value in values:
        if value is None:
            add(_NULL)
        else:
            size = len(value)
            add(_LENGTHS[size] if size < len(_LENGTHS) else _LENGTH.pack(size))
            add(value)
    return b"".join(parts)
