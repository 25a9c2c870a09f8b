"""Purging: nothing of a Session is left, in no table and no file."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import aclosing
from pathlib import Path

import apsw
import pytest
from tests.cli.conftest import Machine, finish
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.test_bundles import various
from tests.outside.test_forks import shown, talked, through
from tests.outside.world import World, ask
from tests.stores.stores import STORES, on_postgres

from holdfast import Conflict, NotFound, PromptInput
from holdfast.core.database.queries import load_migrations

pytestmark = pytest.mark.anyio

MARKER = "zebrafinch-7261"


def tables() -> list[str]:
    connection = apsw.Connection(":memory:")
    for script in load_migrations():
        connection.execute(script).fetchall()
    names = connection.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")
    return [str(name) for (name,) in names]


def mentioning(data: Path, text: str) -> set[str]:
    """The tables in which any column of any row contains a text."""
    with STORES.rows(data / "holdfast.db") as run:
        return {table for table in tables() if any(text in repr(row) for row in run(f"select * from {table}"))}


def containing(folder: Path, text: str) -> set[str]:
    """The files that contain a text, or have it in their name."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and (text in path.name or text.encode() in path.read_bytes())
    }


def objects(stores: Path) -> set[Path]:
    """The objects of file snapshots."""
    return {path for path in stores.glob("*/objects/??/*")}


async def test_nothing_of_a_purged_session_is_left(world: World) -> None:
    """OPS-100, OPS-101, OPS-102: looked for in every table and in the bytes of every file, while the host is open."""
    async with world.host() as hf:
        kept = await talked(hf, "kept")
        session_id = await various(world, hf)
        world.model.plays(calling("bash", command=f"seq 1 20000; echo {MARKER}", description="mark"))
        await ask(hf, await hf.sessions.get(session_id), f"say {MARKER}")
        below = [member.id for member in (await hf.sessions.tree(session_id)).nodes]
        assert mentioning(world.data, MARKER) >= {"event", "session_message", "session_message_part"}
        report = await hf.sessions.purge(sessions=(session_id,))
        assert set(report.sessions) == set(below)
        assert len(below) >= 2
        assert report.events > 20
        assert report.files == 2
        for id in below:
            assert mentioning(world.data, id) == set()
            with pytest.raises(NotFound):
                await hf.sessions.get(id)
        assert mentioning(world.data, MARKER) == set()
        if not on_postgres():
            assert report.notes == ()
            assert containing(world.data, MARKER) == set()
            assert {name for id in below for name in containing(world.data, id)} == set()
        assert await hf.verify() == []
        assert len(await shown(hf, kept)) > 0
        with pytest.raises(NotFound):
            await hf.sessions.purge(sessions=(session_id,))


async def test_a_deleted_session_is_purged_by_its_id(world: World) -> None:
    """OPS-103: its events are still there after a deletion, with those of the Sessions below it."""
    async with world.host() as hf:
        session_id = await various(world, hf)
        await hf.sessions.delete(session_id)
        assert mentioning(world.data, session_id) >= {"event", "event_sequence"}
        report = await hf.sessions.purge(sessions=(session_id,))
        assert len(report.sessions) >= 2
        assert mentioning(world.data, session_id) == set()
        created = await hf.sessions.create(id=session_id)  # nothing knows the id any more
        assert created.id == session_id


async def test_a_session_with_forks_is_purged_with_them_only(world: World) -> None:
    """OPS-104: the fork would lose messages. A fork alone is purged, and so is what was left of a deleted one."""
    async with world.host() as hf:
        source = await talked(hf, "one", "two")
        fork, gone = await through(hf, source), await through(hf, source)
        await hf.sessions.delete(gone.id)
        with pytest.raises(Conflict, match=f"{fork.id} was forked from it and would lose messages"):
            await hf.sessions.purge(sessions=(source.id,))
        assert await shown(hf, fork) == await shown(hf, source)
        report = await hf.sessions.purge(sessions=(source.id, fork.id))
        assert set(report.sessions) == {source.id, fork.id, gone.id}
        assert mentioning(world.data, source.id) == set()
        assert await hf.verify() == []


async def test_a_source_that_was_deleted_stays_until_its_fork_goes(world: World) -> None:
    """OPS-104: also if the source is deleted first."""
    async with world.host() as hf:
        source = await talked(hf, "one", "two")
        fork = await through(hf, source)
        await hf.sessions.delete(source.id)
        with pytest.raises(Conflict, match="would lose messages"):
            await hf.sessions.purge(sessions=(source.id,))
        assert len(await shown(hf, fork)) > 0
        await hf.sessions.purge(sessions=(fork.id,))
        await hf.sessions.purge(sessions=(source.id,))
        assert mentioning(world.data, source.id) == set()


async def test_a_subagent_is_purged_with_its_tree_only(world: World) -> None:
    """OPS-105: its parent's events tell of it."""
    async with world.host() as hf:
        session_id = await various(world, hf)
        child = next(member.id for member in (await hf.sessions.tree(session_id)).nodes if member.id != session_id)
        with pytest.raises(Conflict, match=f"Purge {session_id} with everything below it"):
            await hf.sessions.purge(sessions=(child,))
        await hf.sessions.delete(child)
        with pytest.raises(Conflict, match=f"Purge {session_id} with everything below it"):
            await hf.sessions.purge(sessions=(child,))
        await hf.sessions.purge(sessions=(session_id,))
        assert mentioning(world.data, child) == set()


async def test_a_working_session_is_interrupted_first(world: World) -> None:
    """OPS-106: as by a deletion."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        world.model.plays(Turn(text="half", end=asyncio.Event()))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="long work"))
        await world.model.asked(1)
        await hf.sessions.purge(sessions=(session.id,))
        assert await hf.sessions.active() == {}
        assert mentioning(world.data, session.id) == set()


async def test_followers_learn_that_a_purged_session_is_gone(world: World) -> None:
    """OPS-106: the deletion is announced before anything is removed, by another host too."""
    async with world.host() as hf, world.host() as other:
        session = await talked(hf, "one")
        listening = asyncio.Event()

        async def deletion() -> str:
            async with aclosing(aiter(other.events.subscribe())) as live:
                async for event in live:
                    listening.set()
                    if event.type == "session.deleted":
                        return str(getattr(event.data, "session_id", ""))
            return ""

        following = asyncio.create_task(deletion())
        async with asyncio.timeout(PATIENCE):
            await listening.wait()
            await hf.sessions.purge(sessions=(session.id,))
            assert await following == session.id


async def test_file_snapshots_that_nobody_needs_are_removed(world: World) -> None:
    """OPS-107: an hour after they were made. Those of another Session, and the next capture, are not affected."""
    world.repository()
    world.configure(holdfast={"titles": False})
    async with world.host() as hf:
        first, second = await hf.sessions.create(), await hf.sessions.create()
        for session, text in ((first, MARKER), (second, "kept")):
            world.model.plays(calling("write", path="new.txt", content=text))
            await ask(hf, session, "write")
            (world.project / "new.txt").unlink()  # the next Session begins without it
        stores = world.data / "snapshot"
        before = objects(stores)
        young = await hf.sessions.purge(sessions=(first.id,))
        assert (young.snapshots, objects(stores)) == (0, before)
        assert any("younger than an hour" in note for note in young.notes)
        old = time.time() - 7200
        for path in before:
            os.utime(path, (old, old))
        third = await talked(hf, "three")
        report = await hf.sessions.purge(sessions=(third.id,))
        assert report.snapshots == len(before - objects(stores)) > 0
        world.model.plays(calling("write", path="more.txt", content="more"))
        await ask(hf, second, "write more")
        staged = await hf.sessions.stage_revert(second.id, message_id=(await shown(hf, second))[0])
        assert staged.message_id
        assert not (world.project / "more.txt").exists()


def test_a_killed_purge_is_completed_by_the_same_command(holdfast: Machine) -> None:
    """OPS-108: what it leaves looks whole to `doctor`. It is killed when the first Session is deleted and marked."""
    sessions = [holdfast("run", "--model", "demo/echo", MARKER).session for _ in range(2)]
    purging = holdfast.start("sessions", "purge", *sessions, "--yes")
    with STORES.rows(holdfast.data / "holdfast.db") as run:
        while not run("select 1 from deleted_session where purging = 1") and purging.poll() is None:
            pass
    purging.send_signal(signal.SIGKILL)
    finish(purging)
    assert holdfast("doctor").code == 0
    again = holdfast("sessions", "purge", *sessions, "--yes")
    assert again.code == 0 or "No session" in again.complaint  # it was completed before it was killed
    assert [mentioning(holdfast.data, session) for session in sessions] == [set(), set()]
    assert holdfast("doctor").code == 0


def test_the_command_asks_and_tells(holdfast: Machine) -> None:
    """OPS-100, OPS-109: what `delete` keeps, and how to remove that too."""
    session = holdfast("run", "--model", "demo/echo", MARKER).session
    assert "nobody can confirm; --yes purges without asking" in holdfast("sessions", "purge", session).complaint
    deleted = holdfast("sessions", "delete", session, "--yes")
    assert f"its events are still stored. `holdfast sessions purge {session}` removes them for good." in deleted.err
    purged = holdfast("sessions", "purge", session, "--yes")
    assert purged.code == 0, purged.err
    assert f"removed {session}: " in purged.out
    assert "no table has a row of them any more" in purged.out
    if not on_postgres():
        assert containing(holdfast.data, MARKER) == set()
    assert f"No session {session} in this database" in holdfast("sessions", "purge", session, "--yes").complaint
    assert holdfast("doctor").code == 0
