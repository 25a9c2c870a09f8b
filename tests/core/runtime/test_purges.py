"""Purges that break off, and that the check at their end leaves out no table."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.core.conftest import ToolRuntime, messages, new_session, tables
from tests.core.runtime.test_forks import told
from tests.core.runtime.test_tree_changes import child, tree_of

from holdfast.core.database.queries import load_migrations, load_queries
from holdfast.core.runtime import purges
from holdfast.core.session.errors import PurgeRefused, SessionNotFound
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.prompt import Prompt

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


@contextmanager
def before_each_deletion(
    monkeypatch: pytest.MonkeyPatch, runtime: ToolRuntime
) -> Iterator[list[Callable[[str], Awaitable[None]]]]:
    """What is put into the list happens right before each commit that deletes a Session."""
    meanwhile: list[Callable[[str], Awaitable[None]]] = []
    delete = runtime.sessions._records.delete

    async def deletes(session_id: str, **options: Any) -> None:
        for action in meanwhile:
            await action(session_id)
        await delete(session_id, **options)

    with monkeypatch.context() as patched:
        patched.setattr(runtime.sessions._records, "delete", deletes)
        yield meanwhile


def use_policy(runtime: ToolRuntime, **retention: Any) -> None:
    path = runtime.paths.data / ".config" / "opencode" / "opencode.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"holdfast": {"retention": retention}}))


async def use_session(runtime: ToolRuntime, session_id: str, action: str) -> None:
    if action == "rename":
        await runtime.sessions.rename(session_id, "another title")
    elif action == "pin":
        await runtime.sessions.pin(session_id)
    elif action == "child":
        await child(runtime, await runtime.sessions.get(session_id), f"{session_id}_new")
    else:
        await runtime.sessions.prompt(session_id, Prompt(text="go on"), resume=False)


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


async def test_a_fork_that_is_made_meanwhile_keeps_its_messages(
    runtime: ToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-104: the purge is refused in the commit that would delete the source."""
    source = await new_session(runtime)
    await told(runtime, source, 3)
    texts = await messages(runtime, source.id)
    assert len(texts) == 3
    forks: list[str] = []
    with before_each_deletion(monkeypatch, runtime) as meanwhile:

        async def fork(session_id: str) -> None:
            forks.append((await runtime.sessions.fork(session_id)).id)

        meanwhile.append(fork)
        with pytest.raises(PurgeRefused, match="shows its messages"):
            await runtime.sessions.purge([source.id])
    await runtime.purges.complete()  # nothing was marked
    for id in (source.id, *forks):
        assert await messages(runtime, id) == texts
        await runtime.log.rebuild(id)
        assert await messages(runtime, id) == texts
    report = await runtime.sessions.purge([source.id, *forks])
    assert set(report.sessions) == {source.id, *forks}
    assert await runtime.log.aggregates() == []


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("action", ["rename", "pin", "child", "prompt"])
async def test_what_is_used_while_retention_removes_it_stays(
    runtime: ToolRuntime, monkeypatch: pytest.MonkeyPatch, at: int, action: str
) -> None:
    """OPS-112: before each of the commits in which a tree of three is deleted. The others of the batch go."""
    root, other = await tree_of(runtime, width=2, depth=1), await new_session(runtime)
    use_policy(runtime, age=0)
    seen = 0
    with before_each_deletion(monkeypatch, runtime) as meanwhile:

        async def use(session_id: str) -> None:
            nonlocal seen
            seen += session_id.startswith(root.id)
            if seen == at + 1 and session_id.startswith(root.id):
                await use_session(runtime, root.id, action)

        meanwhile.append(use)
        report = await runtime.retention.run()
    gone = {item.id for item in report.items}
    if at == 3:  # the tree has only three
        assert gone == {root.id, other.id}
        return
    assert gone == {other.id}
    assert any("was used while it was about to be removed" in note for note in report.notes)
    assert (await runtime.sessions.get(root.id)).id == root.id
    assert await runtime.verify() == []
    await runtime.purges.complete()
    assert await runtime.verify() == []
    await runtime.sessions.purge([root.id])
    assert await runtime.log.aggregates() == []


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


@pytest.mark.parametrize("odd", ["ses_x/../../escape", "ses_\x1b[2J\n"])
async def test_a_session_with_an_id_of_an_earlier_version_is_used_exported_and_removed(
    runtime: ToolRuntime, tmp_path: Path, odd: str
) -> None:
    """SES-488, OPS-114: no path and no header has anything of such an id, and other Sessions go with it."""
    folder = tmp_path / "deep" / "export"
    (folder / "ses_x").mkdir(parents=True)
    use_policy(runtime, age=0, export=str(folder))
    for id in (odd, "ses_plain"):
        session = await new_session(runtime, id=id)
        await runtime.sessions.prompt(session.id, Prompt(text="go"))
        await runtime.sessions.wait(session.id)
        assert (await runtime.sessions.outcome(session.id)).type == "completed"
        assert (await runtime.sessions.get(id)).id == id
    report = await runtime.retention.run()
    assert {item.id for item in report.items} == {odd, "ses_plain"}
    assert report.notes == ()
    written = [path for path in (tmp_path / "deep").rglob("*") if path.is_file()]
    assert sorted(map(str, written)) == sorted(report.exported)
    assert {path.parent for path in written} == {folder}
