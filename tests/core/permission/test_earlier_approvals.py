"""Approvals that were saved by project id, before they belonged to a directory."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest
from tests.conftest import ManualClock
from tests.core.event.samples import raw
from tests.core.permission.desk import Desk

from holdfast.core.clock import Ids
from holdfast.core.database import sqlite
from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.queries import SQL, load_migrations
from holdfast.core.event.log import EventLog

pytestmark = [pytest.mark.anyio, pytest.mark.store("sqlite", reason="files of earlier versions")]

SAVED = """
insert into project (id, worktree, vcs, time_created) values ('prj_1', :known, 'git', 1), ('global', '/', null, 1),
  ('prj_root', '/', 'git', 1);
insert into permission (id, project_id, action, resource, time_created, time_updated) values
  ('psv_1', 'prj_1', 'bash', 'make test', 1, 1), ('psv_2', 'global', 'bash', '*', 1, 1),
  ('psv_3', 'global', 'edit', '*', 1, 1), ('psv_4', 'prj_root', 'edit', '*', 1, 1);
"""


def earlier(path: Path, known: Path) -> None:
    """A database of the first version, with approvals."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = apsw.Connection(str(path))
    connection.execute((SQL / "migrations" / "0001_initial.sql").read_text(encoding="utf-8"))
    connection.execute(f"pragma application_id={sqlite.APPLICATION_ID}; pragma user_version=1").fetchall()
    connection.execute(SAVED, {"known": str(known)}).fetchall()
    connection.close()


async def test_approvals_of_a_known_worktree_stay_and_the_others_go(
    tmp_path: Path, ids: Ids, clock: ManualClock, log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    """TOL-394: the others are counted in the log. What stays holds for whoever owns the directory when it is opened."""
    path = tmp_path / "old" / "holdfast.db"
    earlier(path, path.parent / "prj_1")
    database = SqliteDatabase(path)
    assert f"{path}: 3 saved approvals were removed" in caplog.text
    assert raw(path, "select id, root, owner from permission") == [("psv_1", f"{path.parent}/prj_1/.git", None)]
    desk = Desk(log, database, ids, clock)
    for _ in range(2):
        assert [item.id for item in await desk.permissions.saved.here()] == ["psv_1"]
    assert raw(path, "select owner from permission") == [(os.getuid(),)]
    elsewhere = Desk(log, database, ids, clock, project="prj_2")
    assert await elsewhere.permissions.saved.here() == ()
    await desk.close()
    await elsewhere.close()
    database.close()


async def test_nothing_is_said_when_nothing_was_saved(
    database: SqliteDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    """TOL-394: a new database has nothing to lose."""
    assert raw(database.path, "select count(*) from permission") == [(0,)]
    assert int(raw(database.path, "pragma user_version")[0][0]) == len(load_migrations())
    assert "approvals" not in caplog.text
