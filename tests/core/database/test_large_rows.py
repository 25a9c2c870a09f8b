"""Large values: nobody who does not ask for one reads it, waits for it, or commits with it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.core.database.conftest import FaultyDisk
from tests.core.database.units import event_ids, in_one_batch, raw, rows, unit

from holdfast.core.database import writer
from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.queries import load_queries
from holdfast.core.database.reader import VALUE_BYTES
from holdfast.core.database.unit import Committed, Value

pytestmark = [pytest.mark.anyio, pytest.mark.store("sqlite", reason="pages and connections of SQLite")]

QUERIES = load_queries()
LARGE = 4 * 1024 * 1024
BLOB = '{"text":"' + "x" * LARGE + '"}'


def fill(path: Path) -> None:
    """Five Sessions; the one in the middle has a large value in every table that may hold one."""
    connection = raw(path)
    connection.execute("pragma foreign_keys=off").fetchall()
    connection.execute("insert into project values ('p', '/w', null, 0)")
    for number in range(5):
        id = f"ses_{number}"
        data = BLOB if number == 2 else '{"text":""}'
        connection.execute(
            "insert into session (id, project_id, slug, directory, title, version, time_created, time_updated,"
            " newest_assistant, revert) values (?, 'p', '', '/w', '', '', 0, 0, 1, ?)",
            (id, data if number == 2 else None),
        )
        for seq in (1, 2):
            message = f"msg_{number}_{seq}"
            kind = "assistant" if seq == 1 else "user"
            connection.execute(
                "insert into session_message values (?, ?, ?, ?, 0, 0, ?)", (id, seq, message, kind, data)
            )
            connection.execute(
                "insert into session_message_part values (?, 1, ?, 'text', ?, 'running', ?)", (id, seq, f"k{seq}", data)
            )
            connection.execute(
                "insert into session_input values (?, ?, ?, ?, 'steer', null, null, 0, 'user', 0, null, null)",
                (id, seq, message, data),
            )
            connection.execute("insert into session_attachment values (?, ?, 0, '', '', ?)", (id, message, data))
            connection.execute(
                "insert into session_request values (?, ?, ?, 'question', null, ?, null, 0, 0, 0, null)",
                (id, seq, f"r{message}", data),
            )
            connection.execute("insert into todo values (?, ?, ?, '', '', 0, 0, 0)", (id, seq, data))
        connection.execute("insert into session_lineage values (?, -1, 99, ?)", (id, id))
        for text in (f"baseline {id}", f"snapshot {id}"):
            connection.execute("insert into context_text values (?, ?)", (text, data))
        epoch = (id, f"baseline {id}", f"snapshot {id}")
        connection.execute("insert into session_context_epoch values (?, ?, ?, 0, 0, '{}', '')", epoch)
    connection.close()


async def test_finding_a_row_reads_no_neighbouring_row(disk: FaultyDisk, tmp_path: Path) -> None:
    """EVT-070: finding a row compares keys alone, however large the rows beside it are."""
    path = tmp_path / "h.db"
    SqliteDatabase(path).close()
    fill(path)
    connection = apsw.Connection(str(path))
    read: dict[str, int] = {}
    for session in ("ses_1", "ses_3"):
        message: dict[str, Value] = {"session_id": session, "message_id": f"msg{session[3:]}_1"}
        part = {**message, "kind": "text", "key": "k1"}
        queries: dict[str, dict[str, Value]] = {
            "session.get": {"id": session},
            "session.at_boundary": {"id": session},
            "session.set_agent": {"id": session, "agent": "a", "timestamp": 1},
            "message.close_newest_assistant": {"session_id": session, "timestamp": 1},
            "message.get": message,
            "message.after": {"session_id": session, "after": 0, "held": None},
            "message.active": {"session_id": session},
            "message.checkpoint": {"session_id": session},
            "message.unsettled_tools": {"session_id": session},
            "part.supersede": {**part, "key": "k2"},
            "part.add": {**part, "key": "k3", "status": None, "data": "{}"},
            "part.end_text": {**part, "text": "new"},
            "wait.tools": {"session_id": session},
            "inbox.waiting": {"session_id": session},
            "inbox.next": {"session_id": session, "delivery": "steer", "limit": 9},
            "inbox.overfull": {"session_id": session, "limit": 100},
            "attachment.list": {"session_id": session},
            "request.surplus": {"session_id": session, "kind": "question", "most": 100},
            "context.get": {"session_id": session},
            "todo.list": {"session_id": session},
        }
        for name, params in queries.items():
            before = disk.bytes_read
            connection.execute(QUERIES[name], params).fetchall()
            read[f"{name} {session}"] = disk.bytes_read - before
    connection.close()
    assert {name: size for name, size in read.items() if size > 100_000} == {}


async def test_a_large_value_is_read_outside_the_loop(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EVT-072: at the bound on the loop, beyond it in the reader's thread; the rows are the same."""
    threads: list[str] = []
    far = database._reader._fetch_far

    def noted(name: str, params: dict[str, str], into: Any) -> object:
        threads.append(threading.current_thread().name)
        return far(name, params, into)

    monkeypatch.setattr(database._reader, "_fetch_far", noted)
    overhead = len('{"pad":""}')
    await database.submit(unit("evt_0", aggregate="ses_a", size=VALUE_BYTES // 2))
    await database.submit(unit("evt_1", aggregate="ses_b", size=VALUE_BYTES))
    for aggregate, size in (("ses_a", VALUE_BYTES // 2), ("ses_b", VALUE_BYTES)):
        ((_, _, _, data, _),) = await database.fetch("event.page", {"aggregate_id": aggregate, "after": -1, "limit": 9})
        assert isinstance(data, bytes)
        assert len(data) == size + overhead
    assert len(threads) == 1
    assert threads[0].startswith("holdfast-reader")


async def test_a_large_unit_is_committed_alone(
    disk: FaultyDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EVT-073: in the order in which units were handed over; small ones still share a sync."""
    monkeypatch.setattr(writer, "BATCH_BYTES", 10_000)
    database = SqliteDatabase(tmp_path / "h.db")
    await database.submit(unit("evt_first", aggregate="ses_other"))
    before = disk.wal_syncs
    sizes = [10, 10, 50_000, 10, 10, 9_000, 10]
    outcomes = await in_one_batch(database, [unit(f"evt_{index}", size=size) for index, size in enumerate(sizes)])
    assert outcomes == [Committed(index, index) for index in range(len(sizes))]
    assert disk.wal_syncs - before == 4, "the unit that was held up, two small, the large one, and the rest"
    database.close()
    assert event_ids(database.path) == ["evt_first", *(f"evt_{index}" for index in range(len(sizes)))]


async def test_closing_commits_what_was_postponed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EVT-073"""
    monkeypatch.setattr(writer, "BATCH_BYTES", 1_000)
    database = SqliteDatabase(tmp_path / "h.db")
    futures = [database.submit(unit(f"evt_{index}", size=5_000)) for index in range(20)]
    await asyncio.to_thread(database.close)
    await asyncio.gather(*futures)
    assert rows(database.path, "select count(*) from event") == [(20,)]
