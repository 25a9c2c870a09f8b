"""A database of schema 1, made by the code of that time (data/make_schema_1.py), opened by this code."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from tests.core.conftest import new_session
from tests.core.database.conftest import FaultyDisk
from tests.core.database.units import raw, rows

from holdfast.core.database import sqlite
from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.errors import StorageFull
from holdfast.core.database.queries import SQL, load_migrations
from holdfast.core.runtime.runtime import Paths, Runtime
from holdfast.schema.model import ModelRef
from holdfast.schema.session_event import CompactionEnded, CompactionUndone, RevertCommitted, StepStarted, Synthetic

pytestmark = [pytest.mark.anyio, pytest.mark.store("sqlite", reason="files of earlier versions")]

NEWEST = len(load_migrations())
OLD = Path(__file__).with_name("data") / "schema_1.db.gz"


ADDED = (
    *("session_activity", "session_attempt", "session_blocked", "session_instruction_entry"),
    *("session_task", "session_lineage", "context_text"),
    *("session_budget", "session_work", "session_pause", "budget_total", "budget_share", "budget_revision"),
    *("mcp_manifest", "mcp_server", "node_secret"),
    *("page_instance", "page_sign_in", "page_code", "approval_link", "deleted_session", "retention_run"),
    *("access_token", "audit_entry", "session_partial", "session_import"),
)
"""Tables that the old schema did not have."""
WIDER: dict[str, tuple[Any, ...]] = {"session": (None, None, ANY, None), "session_input": ("user", 0, None, ANY)}
"""What the columns hold that the old schema did not have. When an input's activity ended, and how many
requests were sent, is read from the events."""
EPOCHS = """
select epoch.session_id, baseline.content, snapshot.content, baseline_seq, revision, observed
from session_context_epoch epoch
join context_text baseline on baseline.id = baseline_id join context_text snapshot on snapshot.id = snapshot_id
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "holdfast.db"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    return path


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, in no particular order."""
    names = rows(path, "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")
    return {str(name): sorted(rows(path, f"select * from {name}"), key=repr) for (name,) in names}


def upgraded(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What the old schema knew of it."""
    found = {name: table for name, table in content(path).items() if name not in ADDED}
    for name, added in WIDER.items():
        assert all(row[len(row) - len(added) :] == added for row in found[name])
        found[name] = [row[: len(row) - len(added)] for row in found[name]]
    found["todo"] = [row[:-1] for row in found["todo"]]
    found["session_context_epoch"] = sorted(rows(path, EPOCHS), key=repr)
    return found


def schema(path: Path) -> list[tuple[Any, ...]]:
    tables = rows(path, "select name, sql from sqlite_master where name not like 'sqlite_%' order by name")
    return [(name, " ".join(str(sql).replace('"', "").split())) for name, sql in tables]


def test_an_upgrade_keeps_every_row(old: Path) -> None:
    """EVT-071: row for row, with keys, references and indexes as in a new database."""
    before = content(old)
    assert len(before["event"]) > 100
    SqliteDatabase(old).close()
    assert upgraded(old) == before
    assert all(rows(old, f"select * from {table}") == [] for table in ADDED[:5])
    assert rows(old, "pragma user_version") == [(NEWEST,)]
    assert rows(old, "pragma foreign_key_check") == []
    assert rows(old, "pragma integrity_check") == [("ok",)]
    fresh = old.with_name("fresh.db")
    SqliteDatabase(fresh).close()
    assert schema(old) == schema(fresh)


async def test_everything_agrees_with_the_log_after_an_upgrade(old: Path) -> None:
    """EVT-071: verified and rebuilt from events, the rows are the same; and a Session goes on."""
    async with Runtime(paths=Paths(old.parent), directory=old.parent, environment={"HOME": str(old.parent)}) as runtime:
        assert await runtime.verify() == []
        before = content(old)
        assert await runtime.rebuild() == 4
        assert content(old) == before
        (staged,) = rows(old, "select id from session where revert is not null")
        await runtime.sessions.clear_revert(str(staged[0]))
        assert await runtime.verify() == []


def test_an_upgrade_that_fails_leaves_the_old_database(old: Path, disk: FaultyDisk) -> None:
    """EVT-071: whole or not at all, and it can be tried again."""
    before = content(old)
    disk.wal_room = 40_000
    with pytest.raises(StorageFull):
        SqliteDatabase(old)
    disk.heal()
    assert (content(old), rows(old, "pragma user_version")) == (before, [(1,)])
    SqliteDatabase(old).close()
    assert upgraded(old) == before


def test_the_upgrade_of_a_large_database_is_announced(
    old: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EVT-071: and a new or a current one is not."""
    monkeypatch.setattr(sqlite, "UPGRADE_BYTES", 100_000)
    monkeypatch.setattr(sqlite, "UPGRADE_SECONDS", 0.0)
    monkeypatch.setattr(sqlite, "PROGRESS_STEPS", 100)
    with caplog.at_level(logging.WARNING, logger=sqlite.__name__):
        SqliteDatabase(old.with_name("new.db")).close()
        assert caplog.messages == []
        SqliteDatabase(old).close()
        first, *between, last = caplog.messages
        assert f"from schema 1 to {NEWEST}; this happens once" in first
        assert between
        assert all(message.startswith("still upgrading") for message in between)
        assert last.startswith(f"upgraded {old} in")
        caplog.clear()
        SqliteDatabase(old).close()
        assert caplog.messages == []


def test_foreign_keys_are_on_again_after_an_upgrade(old: Path) -> None:
    """EVT-017"""
    connection = raw(old)
    sqlite.migrate(connection, str(old))
    assert connection.pragma("foreign_keys") == 1
    connection.close()


async def test_an_upgrade_leaves_out_what_was_taken_away_before(runtime: Runtime) -> None:
    """SES-329, EVT-071: the segments that the upgrade computes from the log are those of a rebuild, after
    reverts inside of and after others and undone compactions."""
    session = await new_session(runtime)
    stamp: dict[str, Any] = {"timestamp": 1, "session_id": session.id}

    async def say(first: int, count: int) -> None:
        for number in range(first, first + count):
            await runtime.log.publish(Synthetic(**stamp, message_id=f"msg_{number}", text="x"))

    async def compact(number: int) -> None:
        ended = CompactionEnded(**stamp, message_id=f"msg_{number}", reason="auto", text="s", recent="")
        await runtime.log.publish(ended)
        await runtime.log.publish(CompactionUndone(**stamp, message_id=f"msg_{number}"))

    await say(0, 8)
    await compact(500)
    for number, boundary in enumerate((6, 3, 3, 31, 41)):
        await runtime.log.publish(RevertCommitted(**stamp, message_id=f"msg_{boundary}"))
        await say((number + 1) * 10, 3)
        await compact(600 + number)
    await compact(700)
    connection = raw(runtime.paths.database)
    expected = connection.execute("select * from session_lineage").fetchall()
    assert len(expected) > 5
    script = (SQL / "migrations" / "0006_lineage.sql").read_text()
    connection.execute("delete from session_lineage")
    connection.execute(script[script.index("create temp table hidden") : script.index("drop table hidden")])
    assert connection.execute("select * from session_lineage").fetchall() == expected
    connection.close()
    assert await runtime.verify() == []


async def test_an_upgrade_finds_the_newest_answer_after_a_revert(runtime: Runtime) -> None:
    """SES-487: earlier versions kept pointing to an answer that a revert had taken away."""
    session = await new_session(runtime)
    stamp: dict[str, Any] = {"timestamp": 1, "session_id": session.id}
    model = ModelRef(id="m", provider_id="mock")
    seqs = []
    for id in ("msg_1", "msg_2"):
        started = StepStarted(**stamp, assistant_message_id=id, agent="build", model=model)
        seqs.append((await runtime.log.publish(started)).last)
    await runtime.log.publish(RevertCommitted(**stamp, message_id="msg_1"))
    connection = raw(runtime.paths.database)
    newest = connection.execute("select newest_assistant from session").fetchall()
    assert newest == [(seqs[0],)]
    connection.execute("update session set newest_assistant = ?", (seqs[1],))
    script = (SQL / "migrations" / "0023_endings.sql").read_text()
    connection.execute(script[script.index("update session") :])
    assert connection.execute("select newest_assistant from session").fetchall() == newest
    connection.close()
    assert await runtime.verify() == []
