"""The tables as other tools may read them: columns, keys, indexes, cascades."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.core.database.units import raw, rows

from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.sqlite import MEMORY, BusyWait, connect, latest_schema, migrate

pytestmark = [pytest.mark.anyio, pytest.mark.store("sqlite", reason="the tables of a file as other tools read them")]


class Table(NamedTuple):
    name: str
    columns: str
    """Names in any order; `?` marks those that may be null."""
    unique: tuple[str, ...]
    indexes: tuple[str, ...] = ()
    cascades: tuple[str, ...] = ()
    """`column -> table`, deleting with it."""


SESSION = (
    "id project_id workspace_id? parent_id? slug directory path? title version share_url? summary_additions?"
    " summary_deletions? summary_files? summary_diffs? metadata? cost tokens_input tokens_output tokens_reasoning"
    " tokens_cache_read tokens_cache_write revert? permission? agent? model? time_created time_updated"
    " time_compacting? time_archived? time_pinned? fork?"
)
TABLES = [
    Table("event_sequence", "aggregate_id seq owner_id?", ("aggregate_id",)),
    Table(
        "event",
        "id aggregate_id seq type data",
        ("id", "aggregate_id seq"),
        (),
        ("aggregate_id -> event_sequence",),
    ),
    Table(
        "session",
        SESSION,
        ("id",),
        ("project_id", "workspace_id", "parent_id", "time_created id"),
        ("project_id -> project",),
    ),
    Table(
        "session_message",
        "id session_id type seq time_created time_updated data",
        ("id", "session_id seq"),
        ("session_id seq",),
    ),
    Table("session_lineage", "session_id after_seq through_seq source_id", ("session_id after_seq",)),
    Table("context_text", "id content", ("id",)),
    Table(
        "session_input",
        "id session_id prompt delivery admitted_seq promoted_seq? time_created",
        ("id", "session_id admitted_seq", "session_id promoted_seq"),
        ("session_id promoted_seq delivery admitted_seq",),
        ("session_id -> session",),
    ),
    Table(
        "session_context_epoch",
        "session_id baseline_id snapshot_id baseline_seq revision",
        ("session_id",),
        ("baseline_id", "snapshot_id"),
        cascades=("session_id -> session",),
    ),
    Table(
        "todo",
        "session_id content status priority position time_created time_updated seq",
        ("session_id position",),
        cascades=("session_id -> session",),
    ),
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
async def test_tables_have_the_columns_keys_and_indexes_of_the_rules(database: SqliteDatabase, table: Table) -> None:
    """EVT-001, EVT-002, EVT-051, EVT-052, EVT-053, EVT-054, EVT-055: one table each."""
    path = database.path
    info = rows(path, 'select name, "notnull", pk from pragma_table_info(?)', (table.name,))
    found = {str(name) if required or key else f"{name}?" for name, required, key in info}
    assert set(table.columns.split()) <= found

    unique: set[str] = set()
    plain: set[str] = set()
    for name, only_one in rows(path, 'select name, "unique" from pragma_index_list(?)', (table.name,)):
        columns = rows(path, "select name from pragma_index_info(?) order by seqno", (name,))
        (unique if only_one else plain).add(" ".join(str(row[0]) for row in columns))
    assert set(table.unique) <= unique
    assert set(table.indexes) <= plain

    keys = rows(path, 'select "from", "table", on_delete from pragma_foreign_key_list(?)', (table.name,))
    assert {f"{column} -> {other}" for column, other, action in keys if action == "CASCADE"} >= set(table.cascades)


async def test_numbers_have_number_columns_and_totals_start_at_zero(database: SqliteDatabase) -> None:
    """EVT-001, EVT-002, EVT-051: sequences are integers, cost is real, totals default to 0."""
    path = database.path
    for table in ("event_sequence", "event"):
        info = dict(rows(path, "select name, type from pragma_table_info(?)", (table,)))
        assert str(info["seq"]).upper() == "INTEGER"
        assert str(info["aggregate_id"]).upper() == "TEXT"
    session = {
        str(name): (str(kind).upper(), default)
        for name, kind, default in rows(path, "select name, type, dflt_value from pragma_table_info('session')")
    }
    assert session["cost"] == ("REAL", "0")
    assert {session[f"tokens_{name}"] for name in ("input", "output", "reasoning", "cache_read", "cache_write")} == {
        ("INTEGER", "0")
    }
    info = dict(rows(path, "select name, type from pragma_table_info('session_context_epoch')"))
    assert str(info["baseline_seq"]).upper() == str(info["revision"]).upper() == "INTEGER"


async def test_several_pending_inputs_share_the_unset_promotion(database: SqliteDatabase) -> None:
    """EVT-053: the unique promotion sequence allows any number of rows that have none."""
    connection = raw(database.path)
    connection.execute("pragma foreign_keys=off").fetchall()
    for number in (1, 2):
        connection.execute(
            "insert into session_input (session_id, admitted_seq, id, prompt, delivery, time_created)"
            " values ('ses_1', ?, ?, '{}', 'steer', 1)",
            (number, f"msg_{number}"),
        )
    connection.close()
    assert rows(database.path, "select count(*) from session_input where promoted_seq is null") == [(2,)]


def test_the_latest_schema_is_what_the_migrations_lead_to() -> None:
    """EVT-001: a database made of its statements has the same tables, indexes and triggers."""
    migrated, made = connect(MEMORY, BusyWait()), connect(MEMORY, BusyWait())
    try:
        migrate(migrated, MEMORY)
        made.execute(latest_schema()).fetchall()
        tables = "select type, name, tbl_name, sql from sqlite_master order by type, name"
        assert made.execute(tables).fetchall() == migrated.execute(tables).fetchall()
    finally:
        migrated.close()
        made.close()
