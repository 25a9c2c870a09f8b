"""Corners of the overview: what it reads, what is bounded, and what is told of processes, stores and damage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.conftest import Pair, new_session, tables
from tests.outside.test_forms import NAME
from tests.stores.stores import STORES

from holdfast.core.database.queries import load_migrations, load_queries
from holdfast.core.form.forms import FormDraft
from holdfast.core.runtime import doctor, open_requests
from holdfast.core.runtime.overview import OverviewFilter
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.runtime.text_search import pattern_of
from holdfast.core.session.activity import MOST_ATTEMPTS, Activity, OpenTurn, needs_decision
from holdfast.core.session.nodes import NodeInfo
from holdfast.schema.form import GLOBAL
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio

FORM = FormDraft("Who?", (NAME,), None)
STORED = """
insert into session (id, project_id, slug, directory, title, version, time_created, time_updated)
  select 'ses_' || i, 'p', 's', '/', 't', '1', i, i {each};
insert into session_input (session_id, admitted_seq, id, prompt, delivery, promoted_seq, time_created)
  select 'ses_' || i, 1, 'msg_' || i, '{{}}', 'steer', case when i > 5 then 2 end, i {each};
insert into session_request (session_id, seq, id, kind, data, reply, time_created)
  select 'ses_' || i, 2, 'per_' || i, 'permission', '{{}}', case when i > 5 then '{{}}' end, i {each};
insert into session_lease (session_id, owner_id, token) select 'ses_' || i, null, 1 {each};
"""
"""Sessions of which five have something to do."""
CHARACTERS = "aAbBüÜ*?[]^-!\\%_ "
OPEN: dict[str, Any] = {"running": "[]", "limit": 500, "directory": None, "search": None, "archived": None}
READS: dict[str, dict[str, Any]] = {
    "overview.open": OPEN,
    "overview.requests": {"limit": 500},
    "overview.askers": {},
    "overview.by_prefix": {"low": "ses_1", "high": "ses_1\x7f", "limit": 5},
}


# -- what is read ------------------------------------------------------------------------------------------------------


def steps_with(stored: int, name: str) -> int:
    """How many steps SQLite takes for a statement."""
    connection = apsw.Connection(":memory:")
    for script in load_migrations():
        connection.execute(script).fetchall()
    each = f"from (with recursive n(i) as (select 1 union all select i + 1 from n where i < {stored}) select i from n)"
    connection.execute("pragma foreign_keys=off").fetchall()
    connection.execute(STORED.format(each=each)).fetchall()
    count = 0

    def step() -> bool:
        nonlocal count
        count += 1
        return False

    connection.set_progress_handler(step, 1)
    assert len(connection.execute(load_queries()[name], READS[name]).fetchall()) == 5
    connection.close()
    return count


@pytest.mark.store("sqlite", reason="steps of SQLite")
@pytest.mark.parametrize("name", sorted(READS))
def test_open_work_costs_the_same_however_many_sessions_are_stored(name: str) -> None:
    """WEB-302, CLI-030."""
    few, many = steps_with(20, name), steps_with(5000, name)
    assert many <= few * 1.1


@pytest.mark.store("postgres", reason="plans of PostgreSQL")
@pytest.mark.parametrize("name", sorted(READS))
def test_open_work_reads_only_rows_of_what_is_open(tmp_path: Path, name: str) -> None:
    """WEB-302."""
    import psycopg

    from holdfast.core.database.postgres.statement import compile_statement, encode, postgres_queries

    def visited(node: dict[str, Any]) -> Iterator[float]:
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield rows * node["Actual Loops"] if "Relation Name" in node else 0
        for below in node.get("Plans", ()):
            yield from visited(below)

    compiled = compile_statement(postgres_queries()[name])
    with psycopg.connect(STORES.database(tmp_path / "plans" / "holdfast.db").address, autocommit=True) as connection:
        for statement in STORED.format(each="from generate_series(1, 5000) i").split(";\n"):
            connection.execute(statement.replace("{{}}", "{}").encode())
        connection.execute("analyze")
        values = [encode(READS[name][parameter]) for parameter in compiled.names]
        written = ", ".join("null" if value is None else f"'{value.decode()}'" for value in values)
        connection.execute(b"prepare planned as " + compiled.sql)
        execute = "explain (analyze, format json) execute planned" + (f"({written})" if values else "")
        ((found,),) = connection.execute(execute.encode()).fetchall()
        assert sum(visited(found[0]["Plan"])) <= 50


async def waiting_session(runtime: Runtime) -> Session:
    session = await new_session(runtime)
    await runtime.sessions.prompt(session.id, Prompt(text="later"), resume=False)
    async with runtime.locations.use(runtime.location) as services:
        await services.forms.create(session.id, FORM)
    return session


async def test_the_number_of_queries_does_not_depend_on_the_number_of_sessions(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-300, WEB-310."""
    asked, here = list[str](), asyncio.current_task()
    for kind in ("fetch", "fetch_large"):
        read = getattr(runtime.database, kind)

        async def counted(name: str, *rest: Any, read: Any = read, **given: Any) -> Any:
            if asyncio.current_task() is here:  # others look after the process
                asked.append(name)
            return await read(name, *rest, **given)

        monkeypatch.setattr(runtime.database, kind, counted)

    async def queries() -> list[str]:
        asked.clear()
        told = await runtime.overview.open(OverviewFilter())
        assert told == await runtime.overview.page(OverviewFilter(), limit=100)
        assert len(await runtime.open_requests.list()) == len(told)
        assert len(await runtime.overview.waits()) == len(told)
        return list(asked)

    await waiting_session(runtime)
    few = await queries()
    for _ in range(9):
        await waiting_session(runtime)
    assert await queries() == few


async def test_what_is_told_is_bounded(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """WEB-301, WEB-310: the newest Sessions, the oldest requests."""
    sessions = [await waiting_session(runtime) for _ in range(4)]
    monkeypatch.setattr("holdfast.core.runtime.overview.MOST_OPEN", 3)
    monkeypatch.setattr(open_requests, "MOST_TOLD", 3)
    assert len(await runtime.overview.open(OverviewFilter())) == 3
    listed = await runtime.open_requests.list()
    assert [request.session_id for request in listed] == [session.id for session in sessions[:3]]


async def test_a_session_of_another_process_is_told_as_that_one_does(pair: Pair) -> None:
    """WEB-301, WEB-312: what waits in the database is told by both, forms without a Session by the one that asks."""
    await waiting_session(pair.a)
    async with pair.b.locations.use(pair.b.location) as services:
        services.global_forms.create(FORM)
    assert await pair.a.overview.open(OverviewFilter()) == await pair.b.overview.open(OverviewFilter())
    assert [request.session_id for request in await pair.a.open_requests.list()] != [GLOBAL]
    assert [request.session_id for request in await pair.b.open_requests.list()][-1] == GLOBAL
    assert len(await pair.a.open_requests.list()) == 1


async def test_no_location_is_opened_to_tell_its_requests(runtime: Runtime, tmp_path: Path) -> None:
    """WEB-307, WEB-310."""
    other = tmp_path / "other"
    other.mkdir()
    session = await new_session(runtime, location=Location(directory=str(other)))
    await runtime.sessions.prompt(session.id, Prompt(text="later"), resume=False)
    opened = runtime.locations.opened()
    await runtime.overview.open(OverviewFilter())
    await runtime.open_requests.list()
    assert runtime.locations.opened() == opened


# -- which broken turns wait for a person ------------------------------------------------------------------------------


def activity(**given: Any) -> Activity:
    plain: dict[str, Any] = {"suspended": False, "compacting": False, "between": False, "turn": None, "asks": False}
    return Activity(
        **{"session_id": "ses_1", "seq": 1, "since": 1, "delegates": False, "attempts": 0, **plain, **given}
    )


def turn(message_id: str | None) -> OpenTurn:
    return OpenTurn("build", ModelRef(id="m", provider_id="p"), 1, message_id, 1)


@pytest.mark.parametrize(
    ("left", "decides"),
    [
        (activity(), False),
        (activity(attempts=MOST_ATTEMPTS), True),
        (activity(turn=turn(None)), False),
        (activity(turn=turn(None), decision_seq=3), True),
        (activity(turn=turn(None), suspended=True), False),
        (activity(turn=turn("msg_1")), False),
        (activity(turn=turn("msg_1"), decision_seq=3), True),
        (activity(between=True, decision_seq=3), False),
        (activity(turn=turn("msg_1"), asks=True), False),
        (activity(turn=turn("msg_1"), asks=True, decision_seq=3), False),
        (activity(turn=turn("msg_1"), delegates=True, decision_seq=3), False),
    ],
)
def test_a_person_decides_where_no_process_goes_on(left: Activity, decides: bool) -> None:
    """WEB-313."""
    assert needs_decision(left) is decides


# -- search ------------------------------------------------------------------------------------------------------------


@given(
    before=st.text(CHARACTERS, max_size=5), search=st.text(CHARACTERS, min_size=1, max_size=5), text=st.text(CHARACTERS)
)
def test_patterns_find_a_search_in_any_case_and_nothing_else(before: str, search: str, text: str) -> None:
    """WEB-304."""
    with closing(apsw.Connection(":memory:")) as connection:

        def finds(where: str) -> bool:
            ((found,),) = connection.execute("select ? glob '*' || ? || '*'", (where, pattern_of(search)))
            return bool(found)

        for case in (search, search.upper(), search.lower()):
            assert finds(before + case) or len(case) != len(search)
        assert finds(text) == (_simple(search) in _simple(text))


def _simple(text: str) -> str:
    return "".join(character.lower() for character in text)


# -- system and doctor -------------------------------------------------------------------------------------------------


async def test_processes_that_live_and_that_are_gone_are_told_apart(pair: Pair) -> None:
    """WEB-322: one that executes nothing and does not serve has no row, and is told of itself."""
    (here,) = (await pair.a.system.info()).processes
    assert (here.state, here.serves, here.sessions) == ("here", False, 0)
    await pair.b.nodes.announce(NodeInfo(name="b"))
    with tables(pair.a) as run:
        run("insert into owner (id, pid, beat) values ('own_dead', 1, 1)")
        run("insert into session_lease (session_id, owner_id, token) values (?, 'own_dead', 1)", pair.session.id)
    system = await pair.a.system.info()
    assert {process.id: (process.state, process.sessions) for process in system.processes} == {
        pair.a.nodes.id: ("here", 0),
        pair.b.nodes.id: ("alive", 0),
        "own_dead": ("gone", 1),
    }
    assert system.drains == ()
    await pair.b.nodes.close()


async def test_rows_that_differ_are_found_and_rebuilding_repairs_them(runtime: Runtime) -> None:
    """WEB-330."""
    session = await waiting_session(runtime)
    with tables(runtime) as run:
        run("update session set title = 'damaged' where id = ?", session.id)
    report = await runtime.doctor.examine()
    (finding,) = [finding for finding in report.findings if finding.check == "rows"]
    assert (finding.level, finding.fix) == ("error", doctor.REBUILD)
    assert finding.what == f"{session.id}: 1 row of session differs from the event log"
    await runtime.rebuild()
    assert {finding.check for finding in (await runtime.doctor.examine()).findings} == {"models"}


async def test_findings_are_bounded(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """WEB-330: errors come first, and how many are left out is said."""
    sessions = [await new_session(runtime) for _ in range(3)]
    with tables(runtime) as run:
        for session in sessions:
            run("update session set title = 'damaged' where id = ?", session.id)
    monkeypatch.setattr(doctor, "MOST_FINDINGS", 2)
    findings = (await runtime.doctor.examine()).findings
    assert [finding.level for finding in findings] == ["error", "error", "warning"]
    assert findings[-1].what == "2 findings are not told"
