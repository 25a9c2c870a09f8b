"""Bundles: Sessions in a file, and in another database."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.outside.scripted_provider import Call, Turn, calling
from tests.outside.test_forks import shown, talked, through
from tests.outside.world import World, ask, of_type, until
from tests.stores.stores import STORES

from holdfast import Conflict, Holdfast, InvalidRequest, NotFound, PromptInput
from holdfast.core.bundle.selection import Selecting
from holdfast.core.bundle.zstd import ZstdDecompressor
from holdfast.schema.prompt import FileInput

pytestmark = pytest.mark.anyio

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TABLES = {
    "event": "aggregate_id, seq",
    "event_sequence": "aggregate_id",
    "session": "id",
    "session_lineage": "session_id, after_seq",
    "session_message": "session_id, seq",
    "session_message_part": "session_id, message_seq, idx",
    "session_input": "session_id, admitted_seq",
    "session_attachment": "session_id, message_id, idx",
    "todo": "session_id, position",
    "session_turn": "session_id",
    "session_activity": "session_id",
    "session_request": "session_id, seq",
    "session_task": "session_id, seq",
    "session_budget": "session_id",
}


def rows(data: Path) -> dict[str, list[Any]]:
    """Everything that clients see, and the events, without the position of events in their store."""
    with STORES.rows(data / "holdfast.db") as run:
        columns = {"event": "aggregate_id, seq, id, type, data, metadata", "event_sequence": "aggregate_id, seq"}
        return {
            table: sorted(map(repr, run(f"select {columns.get(table, '*')} from {table} order by {key}")))
            for table, key in TABLES.items()
        }


def elsewhere(world: World, name: str = "elsewhere") -> Holdfast:
    """A host on another database."""
    return world.host(data=world.home / name)


def bundle(world: World, name: str = "a.holdfast") -> Path:
    return world.home / name


async def various(world: World, hf: Holdfast) -> str:
    """A Session with a file, a long output, todos and a subagent that has one of its own."""
    session = await hf.sessions.create()
    picture = FileInput(uri=f"data:image/png;base64,{PIXEL}", name="pixel.png")
    attached = FileInput(uri=(world.project / "hello.txt").as_uri())
    await hf.sessions.prompt(session.id, prompt=PromptInput(text="look", files=(picture, attached)))
    await hf.sessions.wait(session.id)
    world.model.plays(calling("bash", command="seq 1 20000", description="count"))
    await ask(hf, session, "count")
    todo = {"content": "write it down", "status": "pending", "priority": "high"}
    world.model.plays(calling("todowrite", todos=[todo]))
    await ask(hf, session, "plan")
    world.model.plays(calling("task", subagent_type="general", description="below", prompt="go deeper"))
    await ask(hf, session, "delegate")
    return session.id


async def test_an_import_has_the_same_rows_as_the_export(world: World) -> None:
    """OPS-001, OPS-003, OPS-020: events, attachments, managed files and everything that follows from them."""
    async with world.host() as hf:
        session_id = await various(world, hf)
        report = await hf.export_bundle(bundle(world), session_id)
    assert report.sessions >= 2
    assert report.files == 1
    async with elsewhere(world) as other:
        imported = await other.import_bundle(bundle(world))
        assert {session.outcome for session in imported.sessions} == {"imported"}
        assert imported.events == report.events
        assert await other.verify() == []
    assert rows(world.data) == rows(world.home / "elsewhere")
    (output,) = (world.data / "tool-output").iterdir()
    (copy,) = (world.home / "elsewhere" / "tool-output").iterdir()
    assert (copy.name, copy.read_bytes()) == (output.name, output.read_bytes())


async def test_a_redacted_bundle_can_be_given_to_others(world: World) -> None:
    """OPS-032: it has no secret and no home directory, is a whole Session elsewhere, and says what it is."""
    secrets = ("sk-abcdefghijklmnopqrstuvwx", "a value of a variable")
    world.environment["MY_API_KEY"] = secrets[1]
    text = base64.b64encode(f"# {secrets[0]}\n{world.home}/notes\n".encode()).decode()
    note = FileInput(uri=f"data:text/plain;base64,{text}", name="note.txt")
    async with world.host() as hf:
        session_id = await various(world, hf)
        world.write("keys.txt", f"{secrets[0]} {secrets[1]}\n" * 4_000)
        world.model.plays(calling("bash", command="cat keys.txt", description="show"))
        await ask(hf, session_id, f"what about {secrets[0]} in {world.home}/x?")
        await hf.sessions.prompt(session_id, prompt=PromptInput(text=secrets[1], files=(note,)))
        await hf.sessions.wait(session_id)
        report = await hf.export_bundle(bundle(world), session_id, redact=True)
        assert (report.redacted, report.files) == (True, 2)
        assert await hf.sessions.export(session_id, redact=True) == bundle(world).read_bytes()
        with pytest.raises(Conflict, match="the bundle is redacted"):
            await hf.import_bundle(bundle(world))
        messages = len((await hf.sessions.messages(session_id, limit=200)).items)
    content = ZstdDecompressor().decompress(bundle(world).read_bytes())
    for hidden in (*secrets, str(world.home)):
        assert hidden.encode() not in content
    assert b"/home/user/project" in content
    assert PIXEL.encode() in content
    attached = re.findall(rb"data:text/plain[^,]*;base64,([A-Za-z0-9+/=]+)", content)
    assert attached
    for found in attached:
        assert base64.b64decode(found) == b"# ***\n/home/user/notes\n"
    async with elsewhere(world) as other:
        assert (await other.verify_bundle(bundle(world))).redacted
        imported = await other.import_bundle(bundle(world), directory=world.project)
        assert imported.redacted
        assert {session.outcome for session in imported.sessions} == {"imported"}
        assert await other.verify() == []
        assert len((await other.sessions.messages(session_id, limit=200)).items) == messages
        await ask(other, session_id, "go on")


async def test_what_a_text_assigns_to_a_secret_name_is_replaced(world: World) -> None:
    """OPS-032, OPS-476: in a file that the model read, in a command and in an address; other assignments stay."""
    world.configure(permission="allow")
    world.write("settings.env", "DATABASE_PASSWORD=hunter2secret99\nexport API_TOKEN='a b c'\nMODE=plain-text\n")
    async with world.host() as hf:
        session = await hf.sessions.create()
        world.model.plays(calling("read", path="settings.env"))
        await ask(hf, session, "open https://x.example/?token=tiny&page=7")
        world.model.plays(calling("bash", command='MY_SECRET="one two" true', description="x"))
        await ask(hf, session, "go on")
        await hf.export_bundle(bundle(world), session.id, redact=True)
        page = await hf.sessions.export(session.id, format="markdown", redact=True)
    for content in (ZstdDecompressor().decompress(bundle(world).read_bytes()), page):
        for hidden in ("hunter2secret99", "a b c", "token=tiny", "one two"):
            assert hidden.encode() not in content
        assert b"MODE=plain-text" in content
        assert b"DATABASE_PASSWORD=***" in content
    async with elsewhere(world) as other:
        await other.import_bundle(bundle(world))
        assert await other.verify() == []


async def test_equal_sessions_give_equal_bundles(world: World) -> None:
    """OPS-002: also when the second one is made from the import of the first."""
    async with world.host() as hf:
        session_id = await various(world, hf)
        first = await hf.export_bundle(bundle(world), session_id)
        await hf.export_bundle(bundle(world, "b.holdfast"), session_id)
    async with elsewhere(world) as other:
        await other.import_bundle(bundle(world))
        again = await other.export_bundle(bundle(world, "c.holdfast"), session_id)
        assert await other.verify_bundle(bundle(world, "c.holdfast")) == first == again
    assert len({bundle(world, name).read_bytes() for name in ("a.holdfast", "b.holdfast", "c.holdfast")}) == 1


async def test_a_bundle_says_what_its_events_say(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-002: a title and a place that a Session gets after its last exported event are not in it."""
    other = world.project / "below"
    other.mkdir()
    async with world.host() as hf:
        session = await talked(hf, "one")
        await hf.sessions.rename(session.id, title="Before")
        closure, calls = Selecting._closure, [0]

        async def changing(self: Selecting, roots: Any) -> Any:
            calls[0] += 1
            if calls[0] == 2:  # the heads were read
                await hf.sessions.rename(session.id, title="After")
                await hf.sessions.move(session.id, directory=str(other))
            return await closure(self, roots)

        monkeypatch.setattr(Selecting, "_closure", changing)
        await hf.export_bundle(bundle(world), session.id)
        await hf.export_bundle(bundle(world, "after.holdfast"), session.id)
    async with elsewhere(world) as there:
        for name, title, directory in (("a", "Before", world.project), ("after", "After", other)):
            await there.import_bundle(bundle(world, f"{name}.holdfast"))
            found = await there.sessions.get(session.id)
            assert (found.title, found.location.directory) == (title, str(directory))
            await there.export_bundle(bundle(world, "again.holdfast"), session.id)
            assert bundle(world, "again.holdfast").read_bytes() == bundle(world, f"{name}.holdfast").read_bytes()


async def test_a_second_import_changes_nothing_and_a_newer_bundle_extends(world: World) -> None:
    """OPS-021, OPS-022: and one whose Session went on elsewhere is refused."""
    async with world.host() as hf:
        session = await talked(hf, "one")
        await hf.export_bundle(bundle(world, "old.holdfast"), session.id)
        await ask(hf, session, "two")
        await hf.export_bundle(bundle(world, "new.holdfast"), session.id)
    async with elsewhere(world) as other:
        outcomes = []
        for name in ("old", "old", "new", "old", "new"):
            report = await other.import_bundle(bundle(world, f"{name}.holdfast"))
            outcomes.append(report.sessions[0].outcome)
        assert outcomes == ["imported", "unchanged", "extended", "unchanged", "unchanged"]
        assert await other.verify() == []
        assert rows(world.data) == rows(world.home / "elsewhere")
        await ask(other, session, "here")
    async with elsewhere(world, "third") as third:
        await third.import_bundle(bundle(world, "old.holdfast"))
        await ask(third, session, "there")
        before = rows(world.home / "third")
        with pytest.raises(Conflict, match="both have gone on"):
            await third.import_bundle(bundle(world, "new.holdfast"))
        assert rows(world.home / "third") == before


async def test_a_fork_brings_the_sessions_it_was_forked_from(world: World) -> None:
    """OPS-004: also what the source has taken back since, and a source that was deleted."""
    async with world.host() as hf:
        source = await talked(hf, "one", "two", "three")
        fork = await through(hf, source)
        await ask(hf, fork, "four")
        further = await through(hf, fork)
        messages = await shown(hf, further)
        await hf.sessions.stage_revert(source.id, message_id="msg_two")
        await hf.sessions.commit_revert(source.id)
        report = await hf.export_bundle(bundle(world), further.id)
        assert report.sessions == 3
        await hf.sessions.delete(source.id)
        await hf.export_bundle(bundle(world, "deleted.holdfast"), further.id)
    async with elsewhere(world) as other:
        await other.import_bundle(bundle(world))
        assert await shown(other, further) == messages
        assert await other.verify() == []
        assert await other.rebuild() == 3
        assert await shown(other, further) == messages
    async with elsewhere(world, "third") as third:
        report_there = await third.import_bundle(bundle(world, "deleted.holdfast"))
        assert {session.id for session in report_there.sessions} == {fork.id, further.id}
        assert await shown(third, further) == messages
        assert await third.verify() == []
        with pytest.raises(NotFound):
            await third.sessions.get(source.id)
    assert rows(world.home / "third") == rows(world.data)


async def test_a_source_that_is_there_gets_back_what_a_fork_shows(world: World) -> None:
    """OPS-004: the source alone has given up messages that the fork needs."""
    async with world.host() as hf:
        source = await talked(hf, "one", "two")
        fork = await through(hf, source)
        messages = await shown(hf, fork)
        await hf.sessions.stage_revert(source.id, message_id="msg_two")
        await hf.sessions.commit_revert(source.id)
        await hf.export_bundle(bundle(world, "source.holdfast"), source.id)
        await hf.export_bundle(bundle(world, "fork.holdfast"), fork.id)
    async with elsewhere(world) as other:
        await other.import_bundle(bundle(world, "source.holdfast"))
        await other.import_bundle(bundle(world, "fork.holdfast"))
        assert await shown(other, fork) == messages
        assert await other.verify() == []
    assert rows(world.data) == rows(world.home / "elsewhere")


async def test_unfinished_work_of_an_import_waits_for_a_person(world: World) -> None:
    """OPS-023: no host goes on with it by itself, though it would with its own."""
    begin = asyncio.Event()
    world.model.plays(calling("bash", command="echo done", description="say"), Turn(text="later", begin=begin))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await until(hf, session, of_type("tool.success"))
    begin.set()
    async with world.host(recover=False) as hf:
        report = await hf.export_bundle(bundle(world), session.id)
    asked = len(world.model.requests)
    async with elsewhere(world) as other:
        imported = await other.import_bundle(bundle(world))
        assert [item.interrupted for item in imported.sessions] == [True]
        assert imported.events == report.events
    async with elsewhere(world) as other:
        (left,) = [item for item in await other.sessions.interrupted() if item.session_id == session.id]
        assert "came with a bundle" in left.next
        assert len(world.model.requests) == asked
        await other.sessions.recover(session.id, decision="continue")
        await other.sessions.wait(session.id)
        assert len(world.model.requests) == asked + 1


async def test_the_directory_can_be_another_one(world: World) -> None:
    """OPS-024: as a recorded move, so that importing again changes nothing."""
    there = world.home / "there"
    there.mkdir()
    async with world.host() as hf:
        session_id = await various(world, hf)
        await hf.export_bundle(bundle(world), session_id)
    async with elsewhere(world) as other:
        for _ in range(2):
            report = await other.import_bundle(bundle(world), directory=there)
            assert {session.directory for session in report.sessions} == {str(there)}
        assert (await other.sessions.get(session_id)).location.directory == str(there)
        assert await other.verify() == []
        with pytest.raises(InvalidRequest, match="There is no directory"):
            await other.import_bundle(bundle(world), directory=world.home / "nowhere")


async def test_a_child_is_exported_with_its_whole_tree(world: World) -> None:
    """OPS-001: from the root down."""
    async with world.host() as hf:
        world.model.plays(Turn(calls=(Call("task", _task()),)))
        session = await hf.sessions.create()
        await ask(hf, session, "delegate")
        (child,) = (await hf.sessions.list(parent_id=session.id)).items
        report = await hf.export_bundle(bundle(world), child.id)
    assert (report.requested, report.sessions) == ((session.id,), 2)


async def test_nothing_is_left_of_an_export_that_fails(world: World) -> None:
    """OPS-005: and a file that was there stays."""
    bundle(world).write_bytes(b"before")
    async with world.host() as hf:
        with pytest.raises(NotFound):
            await hf.export_bundle(bundle(world), "ses_nowhere")
    assert bundle(world).read_bytes() == b"before"
    assert [path.name for path in world.home.iterdir() if "holdfast" in path.name] == ["a.holdfast"]


def _task() -> str:
    return json.dumps({"subagent_type": "general", "description": "below", "prompt": "go deeper"})
