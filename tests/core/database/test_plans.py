"""What each query reads: none may cost more because there is more history that it does not ask for."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import apsw
import pytest

from holdfast.core.database.queries import load_migrations, load_queries

pytestmark = pytest.mark.store("sqlite", reason="plans and pages of SQLite")

QUERIES = load_queries()
FEW = {
    "access_token.insert": "there are at most 1,000",
    "access_token.list": "there are at most 1,000",
    "audit.page": "in the order of the index, up to the limit",
    "activity.all": "only Sessions that owe an answer have a row",
    "deleted.roots": "all of them are asked for",
    "disk.contents": "a person asks what uses the disk",
    "disk.largest": "a person asks what uses the disk",
    "event.aggregates": "all of them are asked for",
    "form.open_of_integration": "only open requests are in the index",
    "inbox.lost_wakes": "only pending inputs have a row",
    "mcp.forget_servers": "each server in use has a row for each directory, and old ones are removed",
    "mcp.leftovers": "each server in use has a row for each directory, and old ones are removed",
    "node_secret.all": "there are two or three",
    "node_secret.forget": "there are two or three",
    "node_secret.make": "there are two or three",
    "overview.askers": "only open requests are in the index",
    "overview.by_title": "a title is searched among all Sessions without a parent, as a list does",
    "overview.open": "only Sessions with something to do have a row, or are in the index",
    "overview.requests": "only open requests are in the index",
    "owner.all": "only running processes have a row, and those that died since a server looked",
    "page_code.trim": "there are at most 100",
    "page_sign_in.list": "there are at most 100 of the password, and 10 of each token",
    "page_sign_in.trim": "there are at most 100 of the password, and 10 of each token",
    "purge.remove_control": "only requests that no process has answered yet have a row",
    "purge.remove_links": "links are good for minutes",
    "purge.unfinished": "only Sessions that are being purged are in the index",
    "request.open_of_location": "only open requests are in the index",
    "request.open_of_tree": "only open requests are in the index",
    "request.owned": "only open requests are in the index",
    "retention.busy": "only Sessions with something to do have a row, or are in the index",
    "retention.forks": "only segments of forks are in the index",
    "session.number": "counted once a minute, and only where Sessions are limited",
    "store.numbers": "at most 100,000 rows of an index",
    "store.objects": "the tables, indexes, views and triggers of the file",
    "task.any_active_below": "only Sessions that owe an answer have a row",
    "task.undelivered": "only background tasks without a delivered result are in the index",
}
"""Queries that go through a table, or an index, from its beginning."""
PARTS = ("p", "cut", "last", "newest", "chain", "tree", "more", "line", "offers", "used", "root")
"""Names of what a query has already narrowed down."""


@pytest.fixture(scope="module")
def empty() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    for script in load_migrations():
        connection.execute(script).fetchall()
    return connection


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_no_query_goes_through_history_that_it_does_not_ask_for(empty: apsw.Connection, name: str) -> None:
    """EVT-026, EVT-062: a poll, a commit or a page costs the same after ten events and after a million."""
    anything: dict[str, Any] = defaultdict(lambda: None)
    steps = [str(row[3]) for row in empty.execute(f"explain query plan {QUERIES[name]}", anything)]
    scanned = [step for step in steps if step.startswith("SCAN ") and "VIRTUAL TABLE" not in step]
    scanned = [step for step in scanned if step.split()[1] not in PARTS and step != "SCAN CONSTANT ROW"]
    if name in FEW:
        assert scanned, "it does not any more: take it out of the list"
    else:
        assert scanned == []


def test_moved_aggregates_are_found_by_position(empty: apsw.Connection) -> None:
    """EVT-062: it is asked thirty times a second while anyone follows anything."""
    plan = empty.execute(f"explain query plan {QUERIES['event.moved_since']}", {"position": 1}).fetchall()
    assert "SEARCH event USING INTEGER PRIMARY KEY (rowid>?)" in [row[3] for row in plan]
