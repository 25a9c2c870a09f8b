"""The schema and the statements of PostgreSQL, beside those of SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import apsw
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.pq import ExecStatus
from tests.stores.stores import STORES

from holdfast.core.database.postgres.statement import compile_statement, expecting, postgres_queries
from holdfast.core.database.postgres.text import escape, restore
from holdfast.core.database.queries import load_queries
from holdfast.core.database.sqlite import MEMORY, BusyWait, connect, latest_schema

pytestmark = pytest.mark.store("postgres", reason="statements in PostgreSQL's words")

OWN_TABLES = {"holdfast_schema", "holdfast_writer"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection]:
    address = STORES.database(tmp_path_factory.mktemp("statements") / "holdfast.db").address
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def sqlite() -> Iterator[apsw.Connection]:
    connection = connect(MEMORY, BusyWait())
    connection.execute(latest_schema()).fetchall()
    yield connection
    connection.close()


def forms(name: str) -> Iterator[bytes]:
    """A statement as readers and writers send it."""
    sql = postgres_queries()[name]
    for relative in (False, True):
        yield compile_statement(sql, relative=relative).sql
        if sql.startswith("select"):
            yield compile_statement(expecting(sql, None, True), relative=relative).sql
        elif not sql.startswith("with") and "returning" not in sql:
            yield compile_statement(expecting(sql, 1, None), relative=relative).sql


@pytest.mark.parametrize("name", sorted(postgres_queries()))
def test_every_statement_can_be_prepared(server: psycopg.Connection, name: str) -> None:
    """STO-046."""
    for form in forms(name):
        result = server.pgconn.prepare(b"", form)
        assert result.status == ExecStatus.COMMAND_OK, result.error_message.decode()


def test_no_statement_is_postgresqls_alone() -> None:
    """STO-046: otherwise nothing would compare it."""
    assert set(postgres_queries()) == set(load_queries())


def test_no_statement_asks_for_more_than_its_namesake() -> None:
    """STO-046: callers give what SQLite's asks for."""
    ours = load_queries()
    more = {
        name: set(asked) - set(compile_statement(ours[name]).names)
        for name, sql in postgres_queries().items()
        if (asked := compile_statement(sql).names)
    }
    assert {name: names for name, names in more.items() if names} == {}


def test_tables_and_columns_are_those_of_sqlite(server: psycopg.Connection, sqlite: apsw.Connection) -> None:
    """STO-046."""
    kinds = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
    ours = {
        str(table): [row[1] for row in sqlite.execute(f"pragma table_info({table})")]
        for (table,) in sqlite.execute(kinds).fetchall()
    }
    found = server.execute(
        "select table_name, column_name from information_schema.columns where table_schema = 'public'"
        " order by table_name, ordinal_position"
    ).fetchall()
    theirs: dict[str, list[str]] = {}
    for table, column in found:
        theirs.setdefault(table, []).append(column)
    assert {table: columns for table, columns in theirs.items() if table not in OWN_TABLES} == ours


def test_texts_compare_by_bytes(server: psycopg.Connection) -> None:
    """STO-044."""
    other = server.execute(
        "select table_name, column_name from information_schema.columns"
        " where table_schema = 'public' and data_type = 'text' and collation_name is distinct from 'C'"
    ).fetchall()
    assert other == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", '"', "\\", "\n", "é", "null", '"a":1', "{}"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@given(OBJECTS, st.sampled_from("abd"), VALUES)
def test_a_member_is_set_as_sqlite_sets_it(
    server: psycopg.Connection, sqlite: apsw.Connection, doc: Any, name: str, value: Any
) -> None:
    """STO-045."""
    given = (compact(doc), name, compact(value))
    ((ours,),) = sqlite.execute("select json_set(?1, '$.' || ?2, json(?3))", given).fetchall()
    assert server.execute("select holdfast_json_put(%s, %s, %s)", given).fetchall() == [(ours,)]


@given(OBJECTS, OBJECTS)
def test_objects_are_patched_as_sqlite_patches_them(
    server: psycopg.Connection, sqlite: apsw.Connection, doc: Any, patch: Any
) -> None:
    """STO-045."""
    given = (compact(doc), compact(patch))
    ((ours,),) = sqlite.execute("select json_patch(?1, ?2)", given).fetchall()
    assert server.execute("select holdfast_json_patch(%s, %s)", given).fetchall() == [(ours,)]


STEPS = st.fixed_dictionaries(
    {"time": st.fixed_dictionaries({"created": st.just(1)}, optional={"completed": st.just(3)})},
    optional={"finish": st.just("stop"), "snapshot": VALUES, "agent": st.just("build")},
)
ENDS = st.fixed_dictionaries(
    {"time": st.fixed_dictionaries({"completed": st.just(2)}, optional={"x": VALUES})},
    optional={"finish": VALUES, "error": VALUES, "cost": VALUES, "tokens": VALUES, "snapshot": VALUES, "other": VALUES},
)


@given(STEPS, ENDS)
def test_a_step_ends_as_sqlite_ends_it(
    server: psycopg.Connection, sqlite: apsw.Connection, doc: Any, patch: Any
) -> None:
    """STO-045: also if the patch is another one than we write."""
    given = (compact(doc), compact(patch))
    ((ours,),) = sqlite.execute("select json_patch(?1, ?2)", given).fetchall()
    assert server.execute("select holdfast_json_end_step(%s, %s)", given).fetchall() == [(ours,)]


USUAL_ENDS = st.fixed_dictionaries(
    {
        "time": st.fixed_dictionaries({"completed": st.just(2)}),
        "finish": st.sampled_from(["stop", "tool-calls"]),
        "cost": st.sampled_from([0, 0.0, 1e-07, 12.5]),
        "tokens": st.just({"input": 1, "output": 2, "reasoning": 0, "cache": {"read": 3, "write": 0}}),
    }
)
USUAL_STEPS = st.tuples(
    st.fixed_dictionaries({"agent": VALUES, "model": VALUES}, optional={"cost": VALUES, 'a"time': VALUES}),
    st.fixed_dictionaries({"time": st.just({"created": 1})}, optional={"after": VALUES}),
).map(lambda parts: parts[0] | parts[1])


@given(USUAL_STEPS, USUAL_ENDS)
def test_a_step_ends_as_usual(server: psycopg.Connection, sqlite: apsw.Connection, doc: Any, patch: Any) -> None:
    """STO-045: in the short way, and where that may not be taken."""
    given = (compact(doc), compact(patch))
    ((ours,),) = sqlite.execute("select json_patch(?1, ?2)", given).fetchall()
    assert server.execute("select holdfast_json_end_step(%s, %s)", given).fetchall() == [(ours,)]


PROVIDERS = st.just({"executed": False}) | st.fixed_dictionaries(
    {}, optional={"executed": st.booleans(), "metadata": VALUES, "resultMetadata": VALUES}
)
STATES = st.fixed_dictionaries({"status": st.just("pending")}, optional={"input": VALUES, "content": VALUES})
TIMES = st.fixed_dictionaries({"created": st.just(1)}, optional={"ran": st.just(2), "completed": st.just(3)})
TOOLS = st.builds(
    lambda members, last, more: {"type": "tool", "id": "call_1", "name": 'lo"ok', **dict(members), **last, **more},
    st.tuples(STATES, TIMES).flatmap(lambda of: st.permutations([("state", of[0]), ("time", of[1])])),
    st.just({}) | PROVIDERS.map(lambda provider: {"provider": provider}),
    st.just({}) | st.just({"more": 1}),
)


@given(TOOLS, PROVIDERS, STATES)
def test_a_call_runs_as_in_sqlite(
    server: psycopg.Connection, sqlite: apsw.Connection, doc: Any, provider: Any, state: Any
) -> None:
    """STO-045."""
    given = (compact(doc), compact(provider), compact(state), 7)
    setting = "json_set(?1, '$.provider', json(?2), '$.state', json(?3), '$.time.ran', ?4)"
    ((ours,),) = sqlite.execute(f"select {setting}", given).fetchall()
    assert server.execute("select holdfast_json_tool_called(%s, %s, %s, %s)", given).fetchall() == [(ours,)]


@given(TOOLS, STATES, st.none() | VALUES, st.booleans())
def test_a_call_succeeds_as_in_sqlite(
    server: psycopg.Connection, sqlite: apsw.Connection, doc: Any, state: Any, metadata: Any, executed: bool
) -> None:
    """STO-045."""
    given = (compact(doc), compact(state), None if metadata is None else compact(metadata), executed, 7)
    ((ours,),) = sqlite.execute(
        """select json_set(
          case when ?3 is null then ?1 else json_set(?1, '$.provider.resultMetadata', json(?3)) end,
          '$.provider.executed',
          json(case when ?4 or json_extract(?1, '$.provider.executed') then 'true' else 'false' end),
          '$.state', json_set(json(?2), '$.input', ?1 -> '$.state.input'),
          '$.time.completed', ?5)""",
        given,
    ).fetchall()
    assert server.execute("select holdfast_json_tool_success(%s, %s, %s, %s, %s)", given).fetchall() == [(ours,)]


@pytest.mark.parametrize("number", ["1e3", "1.0", "1E-7", "100000000000000000000", "-0", "0.10"])
def test_numbers_keep_their_spelling(server: psycopg.Connection, number: str) -> None:
    """STO-045."""
    doc = f'{{"b":{number},"a":{{"z":{number},"y":{{}}}}}}'
    assert server.execute("select holdfast_json_put(%s, 'c', '1')", (doc,)).fetchall() == [(doc[:-1] + ',"c":1}',)]
    patched = f'{{"b":{number},"a":{{"z":{number},"y":{{}},"x":1}}}}'
    assert server.execute('select holdfast_json_patch(%s, \'{"a":{"x":1}}\')', (doc,)).fetchall() == [(patched,)]


@pytest.mark.parametrize("text", ["\0", "a\0b", '"\\\0', "\x1f\x7f\b", "\uf8f1", "0000", "\\u0000"])
def test_a_text_becomes_json_as_in_sqlite(server: psycopg.Connection, sqlite: apsw.Connection, text: str) -> None:
    """STO-044: NUL included, which the server has not got."""
    ((ours,),) = sqlite.execute("select json_set('{}', '$.a', ?)", (text,)).fetchall()
    ((stored,),) = server.execute(
        "select holdfast_json_put('{}', 'a', holdfast_json_quote(%s))", (escape(text),)
    ).fetchall()
    assert restore(stored) == ours


def test_paths_and_resources_of_any_length_are_stored(server: psycopg.Connection) -> None:
    """STO-048."""
    path = "/" + "/".join(f"{number:0250d}" for number in range(16))  # 4,015 bytes
    noise = "".join(chr(0x4E00 + number * 7919 % 20000) for number in range(30_000))
    row = {"id": "p", "project_id": "j", "root": path, "owner": 1, "action": "shell", "resource": noise, "timestamp": 1}
    run(server, "project.ensure", {"id": "j", "worktree": path, "vcs": None, "time_created": 1})
    run(server, "permission.save", row)
    run(server, "permission.save", {**row, "id": "again"})
    run(server, "permission.save", {**row, "id": "other", "resource": noise + "x"})
    found = run(server, "permission.of_directory", {"root": path, "owner": 1})
    assert [id for id, *_ in found] == ["other", "p"]
    assert run(server, "project.of_worktree", {"worktree": path}) == [("j",)]


def run(server: psycopg.Connection, name: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
    compiled = compile_statement(postgres_queries()[name])
    result = server.pgconn.exec_params(compiled.sql, compiled.values(params))
    assert result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK), result.error_message.decode()
    return [
        tuple((result.get_value(row, column) or b"").decode() for column in range(result.nfields))
        for row in range(result.ntuples)
    ]
