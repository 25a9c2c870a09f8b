"""Reading conversations of OpenCode: limits, and what is not an ordinary file."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.outside.test_transcript_import import SCHEMA, in_database

from holdfast.core.bundle.opencode import source, stored_database
from holdfast.core.bundle.opencode.foreign import DEEPEST, amount, is_deep, is_id, number
from holdfast.core.bundle.opencode.source import Storage, read_file
from holdfast.core.bundle.opencode.stored_database import StoredDatabase, database_at
from holdfast.core.bundle.opencode.transcript import TranscriptInvalid

FIRST, SECOND = "ses_00000000000000000000000001", "ses_00000000000000000000000002"


def record(storage: Path, id: str, **more: Any) -> None:
    folder = storage / "session" / "global"
    folder.mkdir(parents=True, exist_ok=True)
    info = {"id": id, "directory": "/x", "time": {"created": 1}, **more}
    (folder / f"{id}.json").write_text(json.dumps(info), encoding="utf-8")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "FILE_BYTES", 1_000)
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"info": {}, "messages": [], "more": "x" * 1_000}), encoding="utf-8")
    with pytest.raises(TranscriptInvalid, match="limit of what is read, 1,000 bytes"):
        read_file(path)


def test_a_session_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "SESSION_BYTES", 1_000)
    record(tmp_path, FIRST)
    folder = tmp_path / "message" / FIRST
    folder.mkdir(parents=True)
    for number_ in range(20):
        (folder / f"msg_{number_:026d}.json").write_text(json.dumps({"role": "user", "x": "x" * 100}), encoding="utf-8")
    with pytest.raises(TranscriptInvalid, match="limit of what is read"):
        Storage(tmp_path).read(FIRST)


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(TranscriptInvalid, match="no regular file"):
        read_file(tmp_path / "pipe.json")
    with pytest.raises(TranscriptInvalid, match="No such file"):
        read_file(tmp_path / "absent.json")


def test_sessions_that_are_ancestors_of_themselves_are_refused(tmp_path: Path) -> None:
    record(tmp_path, FIRST, parentID=SECOND)
    record(tmp_path, SECOND, parentID=FIRST)
    storage = Storage(tmp_path)
    assert storage.trees() == []
    assert [error.source for error in storage.refused] == [FIRST, SECOND]


def test_a_project_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(json.dumps({"worktree": "/secret"}), encoding="utf-8")
    record(tmp_path, FIRST, projectID="../secret")
    assert Storage(tmp_path).read(FIRST).worktree == "/x"


def test_values_of_other_types_are_absent() -> None:
    assert [number(value) for value in (True, -1, "7", None, 2**60, 1.5)] == [0, 0, 0, 0, 0, 1]
    assert [amount(value) for value in (True, float("nan"), float("inf"), "1", 0.5)] == [0, 0, 0, 0, 0.5]
    ids = ("ses_0123456789", "ses_../../etc/x", "ses_", "msg_0123456789", "ses_0123456789\n")
    assert [is_id("ses", id) for id in ids] == [True, False, False, False, False]
    nested: Any = 1
    for _ in range(DEEPEST - 1):
        nested = [nested]
    assert not is_deep(nested)
    assert is_deep({"a": [nested]})


def told(id: str, **more: Any) -> dict[str, Any]:
    time = {"created": 1, "updated": 2}
    return {"id": id, "projectID": "p", "directory": "/x", "title": "t", "version": "1", "time": time, **more}


def changed(path: Path, script: str) -> StoredDatabase:
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(script)
    return StoredDatabase(path)


def test_what_is_no_database_of_opencode_is_refused(tmp_path: Path) -> None:
    """OPS-435: with the reason."""
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"SQLite format 3\0" + b"x" * 10_000)
    assert database_at(damaged) == damaged
    with pytest.raises(TranscriptInvalid, match="cannot be read"):
        StoredDatabase(damaged)
    with pytest.raises(TranscriptInvalid, match=r"no table `session`.*takes backups"):
        changed(tmp_path / "other.db", "create table notes (id text)")
    with pytest.raises(TranscriptInvalid, match="no table `message`"):
        changed(
            tmp_path / "view.db", SCHEMA + "alter table message rename to m; create view message as select * from m"
        )
    os.mkfifo(tmp_path / "pipe.db")
    assert database_at(tmp_path / "pipe.db") is None
    assert database_at(tmp_path) is None


def test_hostile_rows_of_a_database_are_refused_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-435: the other Sessions are read."""
    path = in_database(tmp_path / "opencode.db", (told(FIRST), []), (told(SECOND), []))
    assert database_at(tmp_path) == path
    database = changed(
        path,
        f"""
        insert into session (id, project_id, directory, title, version, time_created, time_updated)
        values ('../../etc', 'p', '/x', 't', '1', 1, 1);
        insert into message (id, session_id, data) values ('msg_1', '{FIRST}', '{{"role":');
        insert into project (id, worktree) values ('q', 7);
        """,
    )
    assert [error.problem for error in database.refused] == ["'../../etc' is no id of a session"]
    assert database.trees() == [[FIRST], [SECOND]]
    with pytest.raises(TranscriptInvalid, match="msg_1 is no JSON"):
        database.read(FIRST)
    assert database.read(SECOND).worktree == "/x"
    database.close()
    monkeypatch.setattr(stored_database, "SESSION_BYTES", 100)
    large = json.dumps({"role": "user", "x": "x" * 20_000})
    database = changed(path, f"update message set data = '{large}', session_id = '{SECOND}'")
    with pytest.raises(TranscriptInvalid, match="over the limit"):
        database.read(SECOND)
    database.close()
    monkeypatch.setattr(stored_database, "FILE_BYTES", 10_000)
    database = StoredDatabase(path)
    with pytest.raises(TranscriptInvalid, match="cannot be read"):
        database.read(SECOND)
    database.close()
