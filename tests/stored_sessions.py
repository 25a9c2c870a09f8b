"""Fills a SQLite database with copies of some of its Sessions: rows of the log and of all projections, with new ids and
earlier times.

`holdfast doctor` finds nothing wrong with the copies: what the projections hold follows from the events."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import apsw

ID_OR_TIME = re.compile(r"\b(?:[a-z]{3}_[0-9A-Za-z]{26}|1[0-9]{12})\b")
FIRST_TIME, LAST_TIME = 10**12, 2 * 10**12
MILLIS_BETWEEN = 10_000
"""By how much each copy is older than the one before."""
SHARED = {"project", "permission", "budget_revision", "page_instance", "sqlite_sequence", "owner", "node_secret"}
"""Tables whose rows belong to no Session."""
BATCH = 500
"""Sessions that one transaction copies."""

Row = tuple[object, ...]


def copy_sessions(path: Path, session_ids: Sequence[str], count: int, *, start: int = 0) -> int:
    """Add `count` copies of Sessions that no process has open; returns how many events were added."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute("pragma synchronous=off; pragma foreign_keys=off; pragma cache_size=-200000")
        templates = [_Template(connection, table, id) for id in session_ids for table in _tables(connection)]
        for first in range(start, start + count, BATCH):
            numbers = range(first, min(first + BATCH, start + count))
            with connection:
                for template in templates:
                    template.copy(connection, numbers)
        return count * sum(len(it.rows) for it in templates if it.table == "event")
    finally:
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        connection.close()


def _tables(connection: apsw.Connection) -> list[str]:
    found = connection.execute("select name from sqlite_master where type = 'table' order by rowid").fetchall()
    return [str(name) for (name,) in found if name not in SHARED and not str(name).startswith("sqlite_")]


class _Template:
    """The rows of a table that belong to a Session."""

    def __init__(self, connection: apsw.Connection, table: str, session_id: str) -> None:
        self.table = table
        # `position` of an event and the rowids of other tables are given by SQLite.
        columns = [str(row[1]) for row in connection.execute(f"pragma table_info({table})")]
        self.columns = [name for name in columns if (table, name) != ("event", "position")]
        owner = next((name for name in ("session_id", "aggregate_id") if name in columns), None)
        condition = f"{owner} = ?" if owner else "instr(id, ?) > 0" if table == "context_text" else "id = ?"
        known = owner or "id" in columns
        query = f"select {', '.join(self.columns)} from {table} where {condition}"
        self.rows: list[Row] = connection.execute(query, (session_id,)).fetchall() if known else []

    def copy(self, connection: apsw.Connection, numbers: range) -> None:
        if self.rows:
            values = ", ".join("?" * len(self.columns))
            insert = f"insert into {self.table} ({', '.join(self.columns)}) values ({values})"
            connection.executemany(insert, (self._renamed(row, number) for number in numbers for row in self.rows))

    def _renamed(self, row: Row, number: int) -> Row:
        earlier = (number + 1) * MILLIS_BETWEEN

        def rename(found: re.Match[str]) -> str:
            text = found.group()
            return str(int(text) - earlier) if text[0] == "1" else f"{text[:-6]}{number:06d}"

        def changed(value: object) -> object:
            if isinstance(value, str):
                return ID_OR_TIME.sub(rename, value)
            return value - earlier if isinstance(value, int) and FIRST_TIME < value < LAST_TIME else value

        return tuple(map(changed, row))
