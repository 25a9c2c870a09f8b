"""Batches: units that share statements commit what they would commit one after the other."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus
from tests.core.database.postgres.test_equality import empty_session, told, without_place
from tests.core.database.postgres.test_flights import in_one_batch, stored
from tests.core.database.postgres.test_plans import FILLED, is_scan, nodes
from tests.core.database.units import rows, unit
from tests.stores.pool import PooledDatabase
from tests.stores.stores import STORES

from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.errors import Fenced, InvalidDurableEvent, Refused
from holdfast.core.database.postgres import batch
from holdfast.core.database.postgres.address import WRITING
from holdfast.core.database.postgres.batch import APPEND_ALL, BATCHED, FEWEST, MOVE_ALL, Batches, Group, for_each_row
from holdfast.core.database.postgres.database import PostgresDatabase
from holdfast.core.database.postgres.flight import Flight, Plan
from holdfast.core.database.postgres.statement import compile_statement, postgres_queries
from holdfast.core.database.postgres.text import restore
from holdfast.core.database.unit import Committed, Fence, NewEvent, Statement, Unit

pytestmark = [pytest.mark.anyio, pytest.mark.store("postgres", reason="batches are how PostgreSQL is written to")]

SESSIONS = [f"ses_{number}" for number in range(10)]
TEXTS = ["plain", 'a "quoted" \\ one', "{1,NULL,2}", "é 😀 \x7f", "\0 \uf8f1", ""]
FOUND = {"session.exists": True, "inbox.overfull": False, "inbox.exists": False, "message.exists": False}
CHANGED = ("message.insert", "inbox.promote")
INSERTED = ("message.insert", "inbox.insert", "inbox.adopt")
"""An event inserts one of them, under its sequence."""
OTHERS = [name for name in BATCHED if name not in (*INSERTED, "inbox.promote", "lease.release")]
WITHOUT_SEQ = [name for name in OTHERS if ":seq" not in postgres_queries()[name]]
TABLES: tuple[str, ...] = (
    "event",
    "event_sequence",
    "session",
    "session_message",
    "session_message_part",
    "session_input",
)
TABLES += ("session_turn", "session_activity", "session_work", "session_lease", "session_wake", "session_blocked")


class Seen:
    """The groups that were sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.rows: Counter[int] = Counter()
        self.again = 0
        """Flights that were sent again, because a batch failed."""
        arrange, columns, fly = Batches.arrange, batch._columns, Flight._fly

        def flown(flight: Flight, *given: Any, grouped: bool) -> Any:
            self.again += not grouped and len(given[1]) >= FEWEST
            return fly(flight, *given, grouped=grouped)

        def arranged(batches: Batches, plans: Sequence[Plan], known: set[str]) -> list[Plan | Group]:
            parts = arrange(batches, plans, known)
            self.sizes += [len(part._members) for part in parts if isinstance(part, Group)]
            return parts

        def counted(given: Sequence[Sequence[bytes | None]]) -> list[bytes | None]:
            self.rows[len(given)] += 1
            return columns(given)

        monkeypatch.setattr(Flight, "_fly", flown)
        monkeypatch.setattr(Batches, "arrange", arranged)
        monkeypatch.setattr(batch, "_columns", counted)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


@pytest.fixture
def one(pooled: PooledDatabase) -> Iterator[PostgresDatabase]:
    """A database with one writer, so that everything that waits is one flight."""
    database = PostgresDatabase(pooled.address, writers=1)
    yield database
    database.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase(tmp_path / "one.db")
    yield database
    database.close()


class Story:
    """Units of several Sessions as nobody would write them: any statements that are sent in batches, in any order."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def create(self, id: str) -> Unit:
        session = empty_session()
        session |= {"id": id, "project_id": "p", "slug": "s", "directory": "/n", "title": "t", "version": "1"}
        session |= {"cost": 0.0, "time_created": 1, "time_updated": 1}
        statements = (
            Statement("project.ensure", {"id": "p", "worktree": "/n", "vcs": None, "time_created": 1}),
            Statement("session.insert", session),
            Statement("lineage.begin", {"session_id": id}),
            *(
                self._statement("message.insert", id, {"id": f"msg_{id}_{number}", "type": "assistant"})
                for number in range(2)
            ),
            *(
                self._statement("part.add", id, {"message_id": f"msg_{id}_0", "key": "c0", "status": status} | part)
                for part, status in zip(PARTS, ("pending", None, None), strict=True)
            ),
        )
        events = [NewEvent(self._id("evt"), "t.1", "{}", None, (statement,)) for statement in statements]
        return Unit(id, events=(NewEvent(f"evt_of_{id}", "t.1", "{}", None, ()), *events))

    def lease(self, id: str) -> Unit:
        lease: dict[str, Any] = {"session_id": id, "owner_id": "own", "token": 1, "seen_token": -1}
        return Unit(id, before=(Statement("lease.take", lease, changes=1),))

    def batch(self, size: int, *, failing: bool) -> list[Unit]:
        """Units of a few kinds. Those of one kind have the same statements with other values."""
        kinds = [self._random.randrange(10**6) for _ in range(4)]
        units = [self._unit(self._random.choice(SESSIONS), self._random.choice(kinds)) for _ in range(size)]
        if failing:
            place = self._random.randrange(size)
            units[place] = self._failing(units[place])
        return units

    def _unit(self, id: str, kind: int) -> Unit:
        choose = random.Random(kind)
        events = tuple(
            NewEvent(
                self._id("evt"),
                "t.1",
                f'"{number}"',
                self._random.choice((None, *TEXTS)),
                self._statements(id, choose, 4, [*OTHERS, choose.choice(INSERTED)]),
            )
            for number in range(choose.choice((0, 1, 1, 2, 3, 20)))
        )
        if choose.random() < 0.3:
            input = {"id": self._id("inp")}
            pair = (self._statement(name, id, input) for name in ("inbox.insert", "inbox.promote"))
            events += tuple(NewEvent(self._id("evt"), "t.1", "{}", None, (statement,)) for statement in pair)
        before = self._statements(id, choose, 1, WITHOUT_SEQ)
        if choose.random() < 0.2:
            project = {"id": self._id("prj"), "worktree": "/n", "vcs": None, "time_created": 1}
            before = (Statement("project.ensure", project), *before)
        fence = Fence(id, "own", 1) if events and choose.random() < 0.6 else None
        local = self._statements(id, choose, 2, OTHERS if events else WITHOUT_SEQ)
        return Unit(id, events=events, before=before, local=local, fence=fence)

    def _failing(self, unit: Unit) -> Unit:
        """The same with something that does not hold."""
        id = unit.aggregate_id
        if not unit.events:
            unit = unit.replace(events=(NewEvent(self._id("evt"), "t.1", "{}", None, ()),))
        match self._random.randrange(6):
            case 0:
                return unit.replace(fence=Fence(id, "own", 2))
            case 1:
                return unit.replace(before=(Statement("session.exists", {"id": "ses_none"}, found=True),))
            case 2:
                statement = self._statement("message.exists", id, {"id": f"msg_{id}_0"})
            case 3:
                statement = self._statement("inbox.promote", id, {"id": "msg_none"})
            case 4:
                statement = self._statement("message.insert", id, {"id": f"msg_{id}_0"})
            case _:
                return unit.replace(events=(*unit.events[:-1], unit.events[-1].replace(id=f"evt_of_{id}")))
        first = unit.events[0]
        return unit.replace(events=(first.replace(projections=(*first.projections, statement)), *unit.events[1:]))

    def _statements(self, id: str, choose: random.Random, most: int, names: Sequence[str]) -> tuple[Statement, ...]:
        chosen = choose.sample(names, k=choose.randint(0, most))
        return tuple(self._statement(name, id, {}) for name in chosen)

    def _statement(self, name: str, id: str, given: dict[str, Any]) -> Statement:
        params = {**self._values(name, id), **given}
        asked = compile_statement(postgres_queries()[name]).names
        params = {key: params[key] for key in asked if key != "seq"}
        found = FOUND.get(name)
        changes = 1 if name in CHANGED else None
        return Statement(name, params, changes=changes, found=found, error=None)

    def _values(self, name: str, id: str) -> dict[str, Any]:
        choose = self._random
        kind = choose.choice(PARTS)
        made = {
            "session_id": id,
            "message_id": f"msg_{id}_{choose.randrange(3)}",
            "id": self._id("msg"),
            "timestamp": choose.randrange(9),
            "text": choose.choice(TEXTS),
            "key": choose.choice(("c0", "c0", "c1")),
            "status": "pending" if kind["kind"] == "tool" else None,
            "provider": '{"executed":false}',
            "state": '{"status":"running","input":{"a":1}}',
            "metadata": choose.choice((None, '{"b":1e3}')),
            "executed": choose.randrange(2),
            "patch": '{"time":{"completed":3},"finish":"stop","cost":0.5,"tokens":{"input":1}}',
            "cost": choose.choice((0.0, 0.25, 1e-7)),
            "agent": "build",
            "model": "{}",
            "attempt": choose.randrange(2),
            "prompt": '{"text":"p"}',
            "delivery": "steer",
            "no_reply": 0,
            "time": choose.randrange(9),
            "limit": 100,
            **{count: choose.randrange(99) for count in ("input", "output", "reasoning", "cache_read", "cache_write")},
            **kind,
        }
        if name.startswith("inbox."):
            made |= {"kind": "user", "timestamp": 1}
        if name == "message.insert":
            made |= {
                "data": '{"agent":"a","model":{},"time":{"created":1}}',
                "type": choose.choice(("user", "assistant")),
            }
        if name == "session.exists":
            made["id"] = id
        return made

    def _id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"


TOOL = '{"type":"tool","id":"c","name":"t","state":{"status":"pending","input":""},"time":{"created":1}}'
PARTS: list[dict[str, Any]] = [
    {"kind": "tool", "data": TOOL},
    {"kind": "text", "data": '{"type":"text","id":"c","text":""}'},
    {"kind": "reasoning", "data": '{"type":"reasoning","id":"c","text":"","time":{"created":1}}'},
]


@pytest.mark.parametrize("seed", range(16))
async def test_any_units_leave_the_rows_that_sqlite_has(
    one: PostgresDatabase, pooled: PooledDatabase, sqlite: SqliteDatabase, seen: Seen, seed: int
) -> None:
    """STO-046: whatever statements units have in common, and if one of them fails."""
    story = Story(seed)
    for id in SESSIONS:
        for first in (story.create(id), story.lease(id)):
            assert await sqlite.submit(first) == await one.submit(first)
    for size, failing in ((3, False), (10, False), (10, True), (40, False), (20, True)):
        units = story.batch(size, failing=failing)
        expected = [await outcome(sqlite, item) for item in units]
        again = seen.again
        outcomes = await in_one_batch(one, pooled, units)
        assert [succeeded(item) for item in outcomes] == [succeeded(item) for item in expected]
        assert sum(not isinstance(item, Committed) for item in outcomes) == failing
        assert compared(pooled.run, "ses_hold") == compared(lambda sql: rows(sqlite.path, sql), "ses_hold")
        assert failing or seen.again == again, "a batch failed where the statements of single units did not"
    assert seen.sizes
    assert max(seen.rows) >= FEWEST


async def outcome(database: SqliteDatabase, item: Unit) -> Committed | Exception:
    try:
        return await database.submit(item)
    except Exception as error:  # noqa: BLE001 - compared
        return error


def succeeded(outcome: object) -> object:
    """Errors of a constraint have other types in SQLite."""
    return told(outcome) if isinstance(outcome, Committed | Fenced | Refused) else None


def compared(run: Any, without: str) -> dict[str, list[str]]:
    found = {}
    for table in TABLES:
        stored = [
            tuple(restore(value) if isinstance(value, str) else value for value in row)
            for row in run(f"select * from {table}")
        ]
        found[table] = sorted(repr(row) for row in without_place(table, stored) if without not in row)
    return found


def _message(id: str, message: str) -> Statement:
    return Story(0)._statement("message.insert", id, {"id": message, "type": "user"})


FAILING: dict[str, tuple[Unit, Unit, type[Exception]]] = {
    "fence": (
        unit("evt_{}", aggregate="{}").replace(fence=Fence("{}", "own", 1)),
        unit("evt_{}", aggregate="{}").replace(fence=Fence("{}", "own", 2)),
        Fenced,
    ),
    "found": (
        unit("evt_{}", aggregate="{}", before=(Statement("session.exists", {"id": "{}"}, found=True),)),
        unit("evt_{}", aggregate="{}", before=(Statement("session.exists", {"id": "none"}, found=True),)),
        Refused,
    ),
    "not found": (
        unit("evt_{}", aggregate="{}", projections=(Statement("message.exists", {"id": "msg"}, found=False),)),
        unit("evt_{}", aggregate="{}", projections=(Statement("message.exists", {"id": "msg_{}_0"}, found=False),)),
        Refused,
    ),
    "changes": (
        unit("evt_{}", aggregate="{}", projections=(_message("{}", "msg_{}"),)),
        unit("evt_{}", aggregate="{}", projections=(_message("none", "msg_{}"),)),
        Refused,
    ),
    "event": (unit("evt_{}", aggregate="{}"), unit("evt_of_ses_0", aggregate="{}"), InvalidDurableEvent),
}
"""A unit that holds, one that does not, and what its caller is told."""


def of_session(template: Unit, id: str) -> Unit:
    def filled(value: Any) -> Any:
        return value.replace("{}", id) if isinstance(value, str) else value

    def statements(given: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(item.replace(params={key: filled(value) for key, value in item.params.items()}) for item in given)

    (event,) = template.events
    return template.replace(
        aggregate_id=id,
        before=statements(template.before),
        fence=template.fence and template.fence.replace(session_id=id),
        events=(event.replace(id=filled(event.id), projections=statements(event.projections)),),
    )


@pytest.mark.parametrize("case", FAILING)
async def test_a_row_that_fails_in_a_batch_takes_nobody_with_it(
    one: PostgresDatabase, pooled: PooledDatabase, seen: Seen, case: str
) -> None:
    """STO-003: its unit is told what it would be told alone."""
    story = Story(1)
    for id in SESSIONS:
        await one.submit(story.create(id))
        await one.submit(story.lease(id))
    holds, fails, error = FAILING[case]
    units = [of_session(fails if id == "ses_4" else holds, id) for id in SESSIONS]
    outcomes = await in_one_batch(one, pooled, units)
    assert seen.sizes[0] == len(SESSIONS)
    assert seen.again == 1
    assert type(outcomes.pop(4)) is error
    assert all(isinstance(item, Committed) for item in outcomes)
    assert [id for id, ids in stored(pooled).items() if f"evt_{id}" in ids] == [id for id in SESSIONS if id != "ses_4"]


async def test_what_relies_on_others_keeps_its_place(one: PostgresDatabase, pooled: PooledDatabase, seen: Seen) -> None:
    """STO-040: units before it are committed before it, and it is in no group."""
    story = Story(2)
    for id in SESSIONS[:8]:
        await one.submit(story.create(id))
    units = [unit(f"evt_a{id}", aggregate=id, projections=(_message(id, f"msg_a{id}"),)) for id in SESSIONS[:4]]
    looks = Statement("message.exists", {"id": "msg_ases_0"}, found=True)
    units.append(unit("evt_b", aggregate="ses_4", before=(looks,)).replace(locks=("ses_0",)))
    units += [unit(f"evt_c{id}", aggregate=id, projections=(_message(id, f"msg_c{id}"),)) for id in SESSIONS[4:8]]
    outcomes = await in_one_batch(one, pooled, units)
    assert all(isinstance(item, Committed) for item in outcomes)
    assert (seen.sizes, seen.again) == ([4, 4], 0)
    assert stored(pooled)["ses_4"][-2:] == ["evt_b", "evt_cses_4"]


async def test_leases_are_released_together(one: PostgresDatabase, pooled: PooledDatabase, seen: Seen) -> None:
    """STO-003: units without events are in groups, too."""
    story = Story(3)
    for id in SESSIONS:
        await one.submit(story.create(id))
        await one.submit(story.lease(id))
    lease: dict[str, Any] = {"owner_id": "own", "token": 1}
    units = [Unit(id, local=(Statement("lease.release", {"session_id": id, **lease}),)) for id in SESSIONS[:9]]
    assert await in_one_batch(one, pooled, units) == [Committed(-1, -1)] * 9
    assert (seen.sizes, seen.again) == ([9], 0)
    assert pooled.run("select session_id from session_lease where owner_id is not null") == [("ses_9",)]


def forms() -> Iterator[tuple[str, str]]:
    """Statements for many rows, as they may be sent."""
    yield "move", MOVE_ALL.sql.decode()
    yield "append", APPEND_ALL.sql.decode()
    for name in BATCHED:
        sql = postgres_queries()[name]
        for relative in (False, True):
            compiled = compile_statement(sql, relative=relative)
            if compiled.relative == relative:
                found, changes = (True, None) if sql.startswith("select") else (None, 1)
                yield name, for_each_row(sql, compiled.names, relative=relative, found=found, changes=changes)
                if changes:
                    yield name, for_each_row(sql, compiled.names, relative=relative)


@pytest.mark.parametrize("filled", [False, True])
def test_a_batch_looks_for_its_rows_by_an_index(tmp_path: Path, filled: bool) -> None:
    """STO-047: also if it was planned while the tables were empty, or before the server knew what is in them."""
    with psycopg.connect(STORES.database(tmp_path / "holdfast.db").address, autocommit=True) as connection:
        if filled:
            for statement in FILLED:
                connection.execute(statement.encode())
            connection.execute("analyze")
        for name, value in WRITING.items():
            connection.execute(f"set {name} = {value}".encode())
        for name, sql in forms():
            result = connection.pgconn.prepare(b"planned", sql.encode())
            assert result.status == ExecStatus.COMMAND_OK, result.error_message.decode()
            count = len(set(re.findall(r"\$\d+", sql)))
            execute = f"explain (format json) execute planned({', '.join(['null'] * count)})"
            ((found,),) = connection.execute(execute.encode()).fetchall()
            assert [node for node in nodes(found[0]["Plan"]) if is_scan(node)] == [], name
            connection.execute("deallocate planned")
