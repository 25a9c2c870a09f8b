"""Trees of Sessions in corners: deletions that break off, reads that do not grow, damaged trees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import ToolRuntime, new_session, tables

from holdfast.core.event.bus import Announcement
from holdfast.core.event.tree_tail import Members
from holdfast.core.session.errors import SessionNotFound
from holdfast.core.session.records import NewSession
from holdfast.core.session.stored_sessions import SessionFilter
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ToolRuntime]:
    (tmp_path / "project").mkdir()
    async with ToolRuntime(
        data=tmp_path / "data", directory=tmp_path / "project", transport=ScriptedTransport()
    ) as opened:
        yield opened


async def child(runtime: ToolRuntime, parent: Session, id: str) -> Session:
    new = NewSession(
        id=id,
        project_id=parent.project_id,
        location=parent.location,
        subpath=parent.subpath,
        parent_id=parent.id,
        title="below",
    )
    return await runtime.sessions._records.create(new)


async def tree_of(runtime: ToolRuntime, *, width: int = 2, depth: int = 2) -> Session:
    """A tree whose Sessions have `width` children each."""
    root = await new_session(runtime)
    level = [root]
    for _ in range(depth):
        level = [await child(runtime, parent, f"{parent.id}_{index}") for parent in level for index in range(width)]
    return root


async def ids(runtime: ToolRuntime) -> set[str]:
    return {session.id for session in await runtime.sessions.page(SessionFilter(), order="asc", limit=1000)}


@pytest.mark.parametrize("done", range(7))
async def test_a_deletion_that_breaks_off_leaves_a_tree_and_is_completed_by_the_next_one(
    runtime: ToolRuntime, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """SES-403: at every point, every Session that is left has its parent."""
    root = await tree_of(runtime)
    delete = runtime.sessions._records.delete
    deleted: list[str] = []

    async def breaks_off(session_id: str, **options: Any) -> None:
        if len(deleted) == done:
            raise OSError("the power fails")
        deleted.append(session_id)
        await delete(session_id, **options)

    with monkeypatch.context() as patched:
        patched.setattr(runtime.sessions._records, "delete", breaks_off)
        with pytest.raises(OSError, match="power"):
            await runtime.sessions.delete(root.id)
    left = await runtime.sessions.page(SessionFilter(), order="asc", limit=1000)
    assert len(left) == 7 - done
    assert {session.parent_id for session in left} - {None} <= {session.id for session in left}
    await runtime.sessions.delete(root.id)
    assert await ids(runtime) == set()
    assert await runtime.verify() == []


async def test_no_child_gets_a_parent_that_is_gone(runtime: ToolRuntime) -> None:
    """SES-403: creating one and deleting the parent exclude each other."""
    root = await new_session(runtime)
    await runtime.sessions.delete(root.id)
    with pytest.raises(SessionNotFound):
        await child(runtime, root, "ses_late")
    assert await ids(runtime) == set()


async def test_children_that_come_during_a_deletion_are_deleted_too(
    runtime: ToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-403."""
    root = await tree_of(runtime, depth=1)
    delete, late = runtime.sessions._records.delete, ["ses_late"]

    async def delete_late(session_id: str, **options: Any) -> None:
        if session_id == root.id and late:
            await child(runtime, root, late.pop())
        await delete(session_id, **options)

    monkeypatch.setattr(runtime.sessions._records, "delete", delete_late)
    await runtime.sessions.delete(root.id)
    assert await ids(runtime) == set()


async def test_the_number_of_reads_does_not_depend_on_the_size_of_a_tree(
    runtime: ToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-400."""
    small, large = await tree_of(runtime, width=1, depth=1), await tree_of(runtime, width=12)
    names: list[str] = []
    for kind in ("fetch", "fetch_large"):
        original = getattr(runtime.database, kind)

        def counted(name: str, *given: Any, original: Any = original, **more: Any) -> Any:
            names.append(name)
            return original(name, *given, **more)

        monkeypatch.setattr(runtime.database, kind, counted)
    assert len((await runtime.trees.of(small.id, limit=500)).nodes) == 2
    few = len(names)
    names.clear()
    assert len((await runtime.trees.of(large.id, limit=500)).nodes) == 157
    assert len(names) == few <= 6


async def test_a_tree_that_is_a_ring_is_read_to_an_end(runtime: ToolRuntime) -> None:
    """SES-400: a damaged parent does not hang the reader."""
    root = await tree_of(runtime, width=1, depth=1)
    (below,) = await ids(runtime) - {root.id}
    with tables(runtime) as sql:
        sql("update session set parent_id = ? where id = ?", below, root.id)
    async with asyncio.timeout(10):
        tree = await runtime.trees.of(root.id, limit=500)
        assert [node.id for node in tree.nodes] == [root.id, below]
        assert len(await runtime.sessions.page(SessionFilter(archived=True), order="asc", limit=10)) == 0


async def test_lists_of_children_use_the_index_of_parents(runtime: ToolRuntime) -> None:
    """API-565: the rest of the database is not read."""
    root = await tree_of(runtime, width=1, depth=1)
    found = await runtime.sessions.page(SessionFilter(parent=root.id), order="asc", limit=10)
    assert [session.parent_id for session in found] == [root.id]
    roots = await runtime.sessions.page(SessionFilter(parent="null"), order="asc", limit=10)
    assert [session.id for session in roots] == [root.id]


def test_a_stream_takes_children_that_are_created_while_its_tree_is_read() -> None:
    """EVT-090: nothing falls between reading the tree and following it."""
    members = Members()
    created = b'{"id":"evt_1","type":"session.created","data":{"sessionID":"x","info":{"id":"x","parentID":"%s"}}}'

    def offered(id: str, parent: str) -> bool:
        return members.accepts(Announcement("evt_1", "session.created", id, created % parent.encode(), 0))

    assert not offered("ses_child", "ses_root")
    assert not offered("ses_below", "ses_child")
    assert not offered("ses_other", "ses_elsewhere")
    assert members.adopt(["ses_root"]) == ["ses_root", "ses_child", "ses_below"]
    assert offered("ses_later", "ses_below")
    assert not offered("ses_foreign", "ses_elsewhere")
    assert members.accepts(Announcement("evt_2", "session.idle", "ses_later", b"{}"))
