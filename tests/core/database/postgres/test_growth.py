"""What the schema does so that ten million Sessions do not slow one down: docs/explanation/postgresql.md."""

from __future__ import annotations

import pytest
from tests.stores.pool import PooledDatabase

pytestmark = pytest.mark.store("postgres", reason="storage settings of PostgreSQL")

OTHERWISE = {
    "access_token": "at most 1,000 rows",
    "audit_entry": "one row for each request of an admin",
    "context_text": "shared by the epochs of several Sessions",
    "holdfast_schema": "one row",
    "holdfast_writer": "one row for each writer",
    "budget_revision": "one row",
    "mcp_manifest": "one row for each manifest",
    "mcp_server": "one row for each server",
    "node_secret": "a few rows",
    "owner": "one row for each process",
    "page_instance": "one row",
    "page_sign_in": "at most 100 rows",
    "page_code": "at most 100 rows",
    "approval_link": "a row lives for minutes",
    "permission": "of a project",
    "project": "one row for each project",
    "retention_run": "one row",
    "session_control": "a row lives until its node has looked at it",
    "session_wake": "a row lives until its input has begun",
}
"""Tables whose key does not begin with the id of a Session, and why they may."""
SESSION_KEYS = {
    "event": "aggregate_id",
    "event_sequence": "aggregate_id",
    "session": "id",
    "budget_total": "budget_id",
    "deleted_session": "id",
}
HOT = (
    "event_sequence",
    "session",
    "session_message",
    "session_message_part",
    "session_input",
    "session_turn",
    "session_activity",
    "session_lease",
    "session_context_epoch",
    "session_work",
    "owner",
    "budget_total",
    "budget_share",
    "budget_revision",
    "holdfast_writer",
)
"""Tables of which every turn, or every node all the time, changes rows."""
FIRST_COLUMNS = """
select t.relname, a.attname from pg_index i join pg_class t on t.oid = i.indrelid
join pg_attribute a on a.attrelid = t.oid and a.attnum = i.indkey[0]
where t.relnamespace = 'public'::regnamespace and (i.indisprimary or t.relname = 'session_instruction')
"""
OPTIONS = """
select relname, coalesce(reloptions, '{}') from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
"""


def test_keys_lead_with_the_id_of_the_session(pooled: PooledDatabase) -> None:
    """STO-217: those of all tables that grow with Sessions."""
    first = dict(pooled.run(FIRST_COLUMNS))
    assert set(first) == {name for name, _ in pooled.run(OPTIONS)}
    wrong = {name: column for name, column in first.items() if column != SESSION_KEYS.get(name, "session_id")}
    assert set(wrong) == set(OTHERWISE)


def test_no_number_is_shared_by_all_sessions(pooled: PooledDatabase) -> None:
    """STO-217: there is no sequence in the database."""
    assert (
        pooled.run("select relname from pg_class where relkind = 'S' and relnamespace = 'public'::regnamespace") == []
    )


def test_rows_that_change_often_have_room_and_are_vacuumed_soon(pooled: PooledDatabase) -> None:
    """STO-217"""
    options = {name: dict(option.split("=") for option in given) for name, given in pooled.run(OPTIONS)}
    for table in HOT:
        assert int(options[table]["fillfactor"]) <= 90, table
        assert float(options[table]["autovacuum_vacuum_scale_factor"]) <= 0.02, table
    assert float(options["event"]["autovacuum_vacuum_insert_scale_factor"]) <= 0.1
