"""A database with many Sessions, made of copies of one: every id gets another ending, in all rows alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw

IDS = re.compile(r"\b((?:ses|msg|evt|prt|ctx|call|req|tool)_[0-9A-Za-z]{20})([0-9A-Za-z]{6})\b")
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
TABLES = {"event_sequence": "aggregate_id", "event": "aggregate_id", "session": "id"} | dict.fromkeys(
    (
        *("session_lineage", "session_message", "session_message_part", "session_input", "session_attachment", "todo"),
        *("session_instruction", "session_context_epoch", "session_context_change", "session_work", "session_lease"),
    ),
    "session_id",
)


def multiply(path: Path, session_id: str, count: int) -> None:
    """Add copies of a Session."""
    connection = apsw.Connection(str(path))
    rows = {table: _rows(connection, table, key, session_id) for table, key in TABLES.items()}
    texts = connection.execute(
        "select distinct context_text.* from context_text join session_context_epoch on context_text.id in "
        "(baseline_id, snapshot_id) where session_id = ?",
        (session_id,),
    )
    rows["context_text"] = texts.fetchall()
    with connection:
        for number in range(1, count + 1):
            ending = _ending(number)
            for table in ("context_text", *TABLES):
                columns = [str(row[1]) for row in connection.execute(f"pragma table_info({table})")]
                places = ", ".join("?" * len(columns))
                for row in rows[table]:
                    values = [_changed(value, ending) for value in row]
                    if table == "event":
                        values[columns.index("position")] = None
                    connection.execute(f"insert into {table} values ({places})", values)
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    connection.close()


def _rows(connection: apsw.Connection, table: str, key: str, session_id: str) -> list[tuple[Any, ...]]:
    order = " order by seq" if table == "event" else ""
    return connection.execute(f"select * from {table} where {key} = ?{order}", (session_id,)).fetchall()


def _changed(value: Any, ending: str) -> Any:
    return IDS.sub(lambda found: found[1] + ending, value) if isinstance(value, str) else value


def _ending(number: int) -> str:
    text = ""
    for _ in range(6):
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
    return text
