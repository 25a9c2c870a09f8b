"""How PostgreSQL finds the rows of each statement: by an index, whatever else is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from tests.stores.stores import STORES

from holdfast.core.database.postgres.address import READING, READING_LARGE
from holdfast.core.database.postgres.reader import PLANNED_BY_VALUES
from holdfast.core.database.postgres.statement import compile_statement, encode, postgres_queries

pytestmark = pytest.mark.store("postgres", reason="plans of PostgreSQL")

FEW = {
    "session.number": "counted once a minute, and only where Sessions are limited",
    "access_token.insert": "there are at most 1,000",
    "access_token.list": "there are at most 1,000",
    "audit.page": "in the order of the index, up to the limit",
    "bundle.roots": "all of them are asked for",
    "deleted.roots": "all of them are asked for",
    "disk.contents": "a person asks what uses the disk",
    "disk.largest": "a person asks what uses the disk",
    "event.aggregates": "all of them are asked for",
    "form.open_of_integration": "only open forms are in the index",
    "inbox.lost_wakes": "only pending inputs have a row",
    "lease.held": "only leases that are held are in the index",
    "mcp.forget": "each offer is looked at once",
    "mcp.forget_servers": "each server that was used within a month has one row",
    "mcp.leftovers": "each server that was used within a month has one row",
    "node_secret.all": "there are a few",
    "node_secret.forget": "there are a few",
    "node_secret.make": "there are a few",
    "overview.askers": "only open requests are in the index",
    "overview.by_title": "a title is searched among all Sessions without a parent, as a list does",
    "overview.drains": "only leases that are held are in the index",
    "overview.open": "only Sessions with something to do have a row, or are in the index",
    "overview.requests": "only open requests are in the index",
    "owner.all": "only running processes have a row, and those that died since a server looked",
    "page_code.trim": "there are at most 100",
    "page_sign_in.list": "there are at most 100 of the password, and 10 of each token",
    "purge.remove_control": "only requests that no process has answered yet have a row",
    "purge.remove_links": "links are good for minutes",
    "purge.unfinished": "only Sessions that are being purged are in the index",
    "request.owned": "only open requests of such callers are in the index",
    "retention.busy": "only Sessions with something to do have a row, or are in the index",
    "retention.forks": "only segments of forks are in the index",
    "retention.state": "only Sessions with something to do have a row, or are in the index",
    "store.numbers": "at most 100,000 rows of each index",
    "task.any_active_below": "only Sessions that owe an answer have a row",
    "task.undelivered": "only background tasks without a delivered result are in the index",
}
"""Statements that go through a table, or an index, from its beginning."""
COUNT = 4000
EACH = f"from generate_series(1, {COUNT}) i"
FILLED = (
    "insert into session (id, project_id, workspace_id, parent_id, slug, directory, title, version, time_created,"
    " time_updated, newest_assistant)"
    " select 'ses_' || i, 'p' || i % 40, 'w' || i % 40, 'ses_' || i % 40, 's', '/' || i % 40, 't', '1', i, i, 3"
    f" {EACH}",
    f"insert into event_sequence (aggregate_id, seq) select 'ses_' || i, 3 {EACH}",
    "insert into event (id, aggregate_id, seq, type, data) select 'evt_' || i || '_' || s, 'ses_' || i, s, 't.1', '{}'"
    f" {EACH}, generate_series(0, 3) s",
    f"insert into session_lineage select 'ses_' || i, -1, 1000, 'ses_' || i {EACH}",
    "insert into session_message select 'ses_' || i, s, 'msg_' || i || '_' || s,"
    " (array['user', 'system', 'assistant', 'shell', 'compaction'])[s], i, i, '{}'"
    f" {EACH}, generate_series(1, 5) s",
    "insert into session_message_part select 'ses_' || i, 3, s, 'tool', 'k',"
    f" case when i % 40 = 0 then 'running' end, '{{}}' {EACH}, generate_series(0, 2) s",
    "insert into session_input (session_id, admitted_seq, id, prompt, delivery, promoted_seq, time_created)"
    f" select 'ses_' || i, 1, 'msg_' || i, '{{}}', 'steer', nullif(i % 10, 0), i {EACH}",
    "insert into session_wake select id, session_id from session_input where promoted_seq is null",
    "insert into session_request (session_id, seq, id, kind, data, time_created, reply)"
    f" select 'ses_' || i, 2, 'per_' || i, 'permission', '{{}}', i, case when i % 10 = 0 then '{{}}' end {EACH}",
    "insert into session_task (session_id, seq, message_id, call_id, child_id, root_id, prompt_id, result_id, caller,"
    " agent, description, background, time_started) select 'ses_' || i % 40, i, 'msg_' || i % 40 || '_3', 'k',"
    f" 'ses_' || i, 'ses_' || i % 40, 'msg_' || i, 'res_' || i, 'a', 'a', 'd', 1, i {EACH}",
    f"insert into session_context_epoch select 'ses_' || i, 'b' || i, 's' || i, 0, 0, '{{}}', 'offer' || i % 40 {EACH}",
    f"insert into session_activity select 'ses_' || i, 1, i, 0 {EACH} where i % 10 = 0",
    f"insert into session_turn select 'ses_' || i, 1, 'a', '{{}}', 1, null, i {EACH} where i % 10 = 0",
    f"insert into session_lease select 'ses_' || i, case when i % 40 = 0 then 'own_1' end, 1 {EACH}",
    f"insert into session_blocked select 'ses_' || i, 1, 'n', 'm' {EACH} where i % 10 = 0",
    f"insert into session_pause select 'ses_' || i, 'ses_' || i % 40, 1 {EACH} where i % 10 = 0",
    f"insert into budget_total (budget_id) select 'ses_' || i {EACH} where i < 400",
    f"insert into session_budget (session_id, seq) select 'ses_' || i, 1 {EACH} where i < 400",
    f"insert into budget_share (session_id, budget_id) select 'ses_' || i, 'ses_' || i % 40 {EACH}",
    f"insert into permission select 'psv_' || i, 'p', '/' || i % 40, 1, 'a', 'r' || i, i, i {EACH}",
    f"insert into mcp_manifest select 'h' || i, '{{}}', i {EACH} where i < 400",
    f"insert into mcp_server select 'k' || i, 'h' || i, '1', i {EACH} where i < 400",
    f"insert into context_text select 'b' || i, 'c' {EACH}",
    f"insert into session_work select 'ses_' || i, 1 {EACH}",
    f"insert into session_control select 'ctl_' || i, 'ses_' || i, 'own_' || i, 'wake' {EACH} where i < 400",
    f"insert into owner (id, pid, beat) select 'own_' || i, 1, 1 {EACH} where i < 400",
    f"insert into todo select 'ses_' || i, 0, 'c', 's', 'p', 1, 1, 1 {EACH}",
    f"insert into session_attachment select 'ses_' || i, 'msg_' || i, 0, 'm', 'text', 'c' {EACH}",
    f"insert into session_instruction select 'ses_' || i, '/' || i % 40, '', '/p' || i, 1 {EACH}",
    f"insert into approval_link select 't' || i, 'ses_' || i, 'per_' || i, i {EACH}",
)
TEXTS = {"position": "1:1:", **dict.fromkeys(("ids", "keys", "types", "beginnings", "texts", "tools"), "[]")}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection]:
    """With as many Sessions as make an index worth its while."""
    address = STORES.database(tmp_path_factory.mktemp("plans") / "holdfast.db").address
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in FILLED:
            connection.execute(statement.encode())
        connection.execute("analyze")
        yield connection


@pytest.fixture
def reading(filled: psycopg.Connection) -> psycopg.Connection:
    return _with(filled, READING)


@pytest.fixture
def listing(filled: psycopg.Connection) -> psycopg.Connection:
    return _with(filled, READING_LARGE)


def _with(connection: psycopg.Connection, settings: Mapping[str, str]) -> psycopg.Connection:
    connection.execute("reset all")
    for name, value in settings.items():
        if name != "default_transaction_read_only":
            connection.execute(f"set {name} = {value}".encode())
    return connection


@pytest.mark.parametrize("name", sorted(set(postgres_queries()) - PLANNED_BY_VALUES))
def test_no_statement_goes_through_what_it_does_not_ask_for(reading: psycopg.Connection, name: str) -> None:
    """STO-047."""
    scanned = [node["Node Type"] for node in nodes(plan(reading, name, {})) if is_scan(node)]
    if name in FEW:
        assert scanned, "it does not any more: take it out of the list"
    else:
        assert scanned == []


@pytest.mark.parametrize("name", sorted(PLANNED_BY_VALUES))
@pytest.mark.parametrize("condition", [{"directory": "/7"}, {"project": "p7"}, {"workspace": "w7"}, {}], ids=str)
def test_a_list_reads_what_fulfils_its_conditions(
    listing: psycopg.Connection, name: str, condition: dict[str, Any]
) -> None:
    """STO-047: in the order of an index, up to the limit."""
    given = {**condition, "parent": "ses_7", "roots": 0, "limit": 20}
    found = plan(listing, name, given, analyze=True)
    assert not [node for node in nodes(found) if node["Node Type"] == "Seq Scan"]
    visited = sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in nodes(found)
        if node.get("Relation Name") == "session"
    )
    assert visited <= 200 + 20 * 200  # those that were found, and the children of each


def is_scan(node: dict[str, Any]) -> bool:
    if node.get("Relation Name", "").startswith("pg_"):
        return False
    if node["Node Type"] == "Seq Scan":
        return True
    return node["Node Type"] in ("Index Scan", "Index Only Scan", "Bitmap Index Scan") and "Index Cond" not in node


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from nodes(below)


def plan(connection: psycopg.Connection, name: str, params: dict[str, Any], *, analyze: bool = False) -> dict[str, Any]:
    compiled = compile_statement(postgres_queries()[name])
    given = {**TEXTS, **params}
    if b"pg_snapshot" not in compiled.sql:
        given.pop("position")
    values = [encode(given.get(name)) for name in compiled.names]
    written = ", ".join("null" if value is None else "'" + value.decode().replace("'", "''") + "'" for value in values)
    connection.execute(b"prepare planned as " + compiled.sql)
    try:
        options = "analyze, format json" if analyze else "format json"
        execute = f"explain ({options}) execute planned" + (f"({written})" if values else "")
        ((found,),) = connection.execute(execute.encode()).fetchall()
        root: dict[str, Any] = found[0]["Plan"]
        return root
    finally:
        connection.execute("deallocate planned")
