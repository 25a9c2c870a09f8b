"""Purges that break off, and that the check at their end leaves out no table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.core.conftest import ToolRuntime, new_session, tables
from tests.core.runtime.test_tree_changes import tree_of

from holdfast.core.database.queries import load_migrations, load_queries
from holdfast.core.runtime import purges
from holdfast.core.session.errors import SessionNotFound
from holdfast.llm.offline import ScriptedTransport

pytestmark = pytest.mark.anyio

OF_SESSION = ("session_id", "aggregate_id", "parent_id", "source_id", "child_id", "budget_id")
SHORT_LIVED = {
    "session_control": "requests between processes, removed with the rest and not looked for by Session",
    "approval_link": "good for minutes, removed with the rest and not looked for by Session",
}


@pytest.fixture
async def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ToolRuntime]:
    monkeypatch.setattr(purges, "PAGE_EVENTS", 2)
    monkeypatch.setattr(purges, "ANNOUNCED_SECONDS", 0)
    (tmp_path / "project").mkdir()
    async with ToolRuntime(
        data=tmp_path / "data", directory=tmp_path / "project", transport=ScriptedTransport()
    ) as opened:
        yield opened


async def test_a_purge_that_breaks_off_anywhere_is_completed(
    runtime: ToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-108: after each commit in turn. What is left has only rows that agree with its events."""
    kept = await new_session(runtime)
    done, complete = 0, False
    while not complete:
        root = await tree_of(runtime, width=1, depth=1)
        await runtime.sessions.rename(root.id, "renamed")
        submit, left = runtime.database.submit, done

        def breaks_off(unit: Any, on_commit: Any = None, submit: Any = submit) -> Any:
            nonlocal left
            if left == 0:
                raise OSError("the power fails")
            left -= 1
            return submit(unit, on_commit)

        with monkeypatch.context() as patched:
            patched.setattr(runtime.database, "submit", breaks_off)
            try:
                await runtime.sessions.purge([root.id])
            except OSError:
                assert done < 30
            else:
                complete = True
        assert await runtime.verify() == []
        if not complete:
            if done % 2:
                await runtime.purges.complete()  # what a server does
            with suppress(SessionNotFound):  # the server has completed it
                await runtime.sessions.purge([root.id])
        assert await runtime.log.aggregates() == [kept.id]
        with tables(runtime) as run:
            assert run("select id from deleted_session") == []
        done += 1
    assert done > 8


def test_the_check_looks_into_every_table() -> None:
    """OPS-101: a table with ids of Sessions that the check does not know would be overlooked."""
    connection = apsw.Connection(":memory:")
    for script in load_migrations():
        connection.execute(script).fetchall()
    found = set()
    for (name,) in connection.execute("select name from sqlite_master where type = 'table'").fetchall():
        columns = {str(row[1]) for row in connection.execute(f"pragma table_info({name})")}
        if columns & set(OF_SESSION) or name in ("session", "deleted_session"):
            found.add(str(name))
    check = load_queries()["purge.left"]
    assert {table for table in found if f"from {table} " not in check} == set(SHORT_LIVED)
