"""Conversations of OpenCode become Sessions: from the files and the database of 1.x, and from exported files."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Machine
from tests.outside.scripted_provider import Turn, calling
from tests.outside.world import World, ask

from holdfast import Holdfast
from holdfast.schema.session_message import AssistantMessage, ToolCompleted, ToolError, ToolPart, UserMessage
from holdfast.schema.transcript_import import TranscriptReport

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
PARENT, CHILD = "ses_4f0b5c3d8ffeT7YwAbCdEfGhIj", "ses_4f0b5c3d7ffeT7YwAbCdEfGhIj"
PICTURE = "data:image/png;base64,iVBORw0KGgo="
TIME = 1_760_000_000_000
USED = {"input": 100, "output": 20, "reasoning": 5, "cache": {"read": 50, "write": 10}}


def message_id(number: int, session: str = "8") -> str:
    return f"msg_b0f4a3c2{number:04d}{session}Ab12Cd34Ef5"


def user(number: int, *parts: Json, session: str = PARENT) -> Json:
    info = {
        "id": message_id(number, session[12]),
        "sessionID": session,
        "role": "user",
        "time": {"created": TIME + number * 1000},
        "agent": "build",
        "model": {"providerID": "anthropic", "modelID": "claude-x"},
    }
    return {"info": info, "parts": with_ids(info["id"], parts)}


def assistant(number: int, *parts: Json, session: str = PARENT, **more: Any) -> Json:
    begun = TIME + number * 1000
    info = {
        "id": message_id(number, session[12]),
        "sessionID": session,
        "role": "assistant",
        "time": {"created": begun, "completed": begun + 500},
        "modelID": "claude-x",
        "providerID": "anthropic",
        "mode": "build",
        "cost": 0.25,
        "tokens": USED,
        **more,
    }
    return {"info": info, "parts": with_ids(info["id"], parts)}


def with_ids(message: Any, parts: tuple[Json, ...]) -> list[Json]:
    return [{"id": f"prt_{message[4:]}{number:02d}", "messageID": message, **part} for number, part in enumerate(parts)]


def call(**state: Any) -> Json:
    time = {"start": TIME + 2100, "end": TIME + 2200}
    return {
        "type": "tool",
        "callID": "call_1",
        "tool": "bash",
        "state": {"input": {"command": "ls"}, "time": time, **state},
    }


def conversation() -> list[Json]:
    return [
        user(
            1,
            {"type": "text", "text": "look at this"},
            {"type": "text", "text": "Called the Read tool", "synthetic": True},
            {"type": "file", "mime": "image/png", "filename": "a.png", "url": PICTURE},
            {"type": "file", "mime": "text/plain", "filename": "secret", "url": "file:///etc/hostname"},
        ),
        assistant(
            2,
            {"type": "step-start", "snapshot": "abc"},
            {"type": "reasoning", "text": "hm", "time": {"start": TIME + 2000, "end": TIME + 2050}},
            {"type": "text", "text": "I look."},
            call(status="completed", output="a.png\n", title="list", metadata={"exit": 0}),
            {"type": "patch", "hash": "abc", "files": ["x"]},
            {"type": "step-finish", "reason": "tool-calls", "cost": 0.25, "tokens": USED},
        ),
        assistant(3, {"type": "text", "text": "It is a picture."}, finish="stop"),
        user(4, {"type": "text", "text": "and now?"}),
        assistant(
            5,
            call(status="error", error="no such file"),
            error={"name": "MessageAbortedError", "data": {"message": "aborted"}},
        ),
    ]


def info(directory: Path, id: str = PARENT, **more: Any) -> Json:
    time = {"created": TIME, "updated": TIME + 9000}
    title = f"Title of {id[-4:]}"
    return {
        **{"id": id, "projectID": "0123abcd", "directory": str(directory), "title": title, "version": "1.0.150"},
        **{"time": time, **more},
    }


def exported(folder: Path, document: Json, name: str = "export.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def stored(folder: Path, record: Json, messages: list[Json]) -> Path:
    """As OpenCode 1.x stores it."""
    storage = folder / "opencode" / "storage"

    def write(value: Json, *names: str) -> None:
        path = storage.joinpath(*names[:-1], f"{names[-1]}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")

    write(record, "session", record["projectID"], record["id"])
    write({"id": record["projectID"], "worktree": record["directory"]}, "project", record["projectID"])
    for message in messages:
        write(message["info"], "message", record["id"], message["info"]["id"])
        for part in message["parts"]:
            write(part, "part", message["info"]["id"], part["id"])
    return storage.parent


SCHEMA = """
create table project (id text primary key, worktree text not null, vcs text, time_created integer);
create table session (id text primary key, project_id text not null, parent_id text, slug text, directory text not null,
  title text not null, version text not null, share_url text, revert text, time_created integer not null,
  time_updated integer not null, time_archived integer);
create table message (id text primary key, session_id text not null, time_created integer, time_updated integer,
  data text not null);
create table part (id text primary key, message_id text not null, session_id text not null, time_created integer,
  time_updated integer, data text not null);
create table todo (session_id text not null, content text not null, status text not null, position integer not null);
"""


def without(value: Json, *names: str) -> str:
    return json.dumps({name: item for name, item in value.items() if name not in names})


def in_database(path: Path, *conversations: tuple[Json, list[Json]]) -> Path:
    """As later versions of OpenCode 1.x store it."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("pragma journal_mode=wal")
        database.executescript(SCHEMA)
        for record, messages in conversations:
            id, directory, time = record["id"], record["directory"], record["time"]
            project = (record["projectID"], directory)
            database.execute("insert or ignore into project (id, worktree) values (?, ?)", project)
            columns = "id, project_id, parent_id, directory, title, version, time_created, time_updated, time_archived"
            values = (id, project[0], record.get("parentID"), directory, record["title"], record["version"])
            times = (time["created"], time["updated"], time.get("archived"))
            database.execute(f"insert into session ({columns}) values (?,?,?,?,?,?,?,?,?)", (*values, *times))
            for message in messages:
                header = message["info"]
                row = (header["id"], id, header["time"]["created"], without(header, "id", "sessionID"))
                database.execute("insert into message (id, session_id, time_created, data) values (?,?,?,?)", row)
                for part in message["parts"]:
                    row = (part["id"], header["id"], id, without(part, "id", "messageID"))
                    database.execute("insert into part (id, message_id, session_id, data) values (?,?,?,?)", row)
    return path


async def conversation_of(hf: Holdfast, session_id: str) -> Json:
    document: Json = json.loads(await hf.sessions.export(session_id, format="json"))
    return document


async def test_a_stored_conversation_of_1x_becomes_a_session(world: World) -> None:
    """OPS-430, OPS-431: text, reasoning, calls with their output, attachments and costs; and it can be gone on with."""
    folder = stored(world.home, info(world.project), conversation())
    async with world.host() as hf:
        report = await hf.import_transcripts(folder)
        session = await hf.sessions.get(PARENT)
        found = (await hf.sessions.messages(PARENT, order="asc")).items
        doctor = await hf.system.doctor()
        world.model.plays(Turn(text="going on"))
        await hf.sessions.switch_model(PARENT, model="mock/m")
        await ask(hf, session, "go on")
    (told,) = report.sessions
    assert (told.source_id, told.id, told.outcome, report.refused) == (PARENT, PARENT, "imported", ())
    assert told.left_out == {"snapshots of files": 1}
    assert (session.title, session.location.directory) == ("Title of GhIj", str(world.project))
    assert session.cost == pytest.approx(0.75)
    assert [message.type for message in found] == ["user", "synthetic", "assistant", "assistant", "user", "assistant"]
    first, _, answer, _, _, failed = found
    assert isinstance(first, UserMessage)
    assert first.text == "look at this"
    assert first.files is not None
    assert [file.uri for file in first.files] == [PICTURE, "file:///etc/hostname"]
    assert isinstance(answer, AssistantMessage)
    assert [part.type for part in answer.content] == ["reasoning", "text", "tool"]
    tool = answer.content[2]
    assert isinstance(tool, ToolPart)
    assert isinstance(tool.state, ToolCompleted)
    assert tool.state.content[0].text == "a.png\n"  # type: ignore[union-attr]
    assert (answer.finish, answer.cost) == ("tool-calls", 0.25)
    assert isinstance(failed, AssistantMessage)
    assert failed.error is not None
    assert failed.error.message == "aborted"
    assert isinstance(failed.content[0], ToolPart)
    assert isinstance(failed.content[0].state, ToolError)
    assert [finding for finding in doctor.findings if finding.check == "rows"] == []
    sent = json.dumps(world.model.last.body)
    assert "It is a picture." in sent
    assert "was not part of the conversation" in sent


async def test_the_database_of_1x_gives_the_same_as_its_files(world: World) -> None:
    """OPS-430, OPS-431: children with their parents, while OpenCode has it open; the files beside it are not read."""
    child = [user(1, {"type": "text", "text": "do it"}, session=CHILD), assistant(2, session=CHILD)]
    records = info(world.project), info(world.project, CHILD, parentID=PARENT)
    stored(world.home, records[0], conversation())
    folder = stored(world.home, records[1], child)
    async with world.host() as hf:
        of_files = (await hf.import_transcripts(folder)).sessions
        first = [await conversation_of(hf, id) for id in (PARENT, CHILD)]
    path = in_database(folder / "opencode.db", (records[0], conversation()), (records[1], child))
    stored(world.home, info(world.project, "ses_4f0b5c3d6ffeT7YwAbCdEfGhIj"), [])
    before = path.read_bytes()
    with closing(sqlite3.connect(path)) as open_elsewhere:
        open_elsewhere.execute("insert into todo values (?, 'look', 'pending', 0)", (PARENT,))
        open_elsewhere.rollback()
        for number, given in enumerate((folder, path)):
            async with world.host(data=world.home / f"other{number}") as hf:
                report = await hf.import_transcripts(given)
                assert report.refused == ()
                assert report.sessions == of_files
                assert [await conversation_of(hf, id) for id in (PARENT, CHILD)] == first
                assert (await hf.import_transcripts(given)).sessions[0].outcome == "unchanged"
                assert await hf.verify() == []
    assert path.read_bytes() == before


async def test_an_import_executes_nothing_and_again_changes_nothing(world: World) -> None:
    """OPS-432, OPS-433: also of a conversation that ends with a question, and after it was gone on with."""
    messages = conversation()[:4]
    path = exported(world.home, {"info": info(world.project), "messages": messages})
    async with world.host() as hf:
        await hf.import_transcripts(path)
        assert await hf.sessions.interrupted() == []
        assert world.model.requests == []
        before = await conversation_of(hf, PARENT)
        again = await hf.import_transcripts(path)
        assert await conversation_of(hf, PARENT) == before
        await hf.sessions.switch_model(PARENT, model="mock/m")
        await ask(hf, PARENT, "go on")
        after = await hf.import_transcripts(path)
        usage = await hf.system.usage(by="model", since=TIME, until=TIME + 10_000)
    assert [report.sessions[0].outcome for report in (again, after)] == ["unchanged", "unchanged"]
    assert [report.sessions[0].events for report in (again, after)] == [0, 0]
    assert usage.total.requests == 2


async def test_the_export_of_an_imported_session_is_the_same_conversation(world: World, tmp_path: Path) -> None:
    """OPS-434: our own export, and that of another database which imported it, are equal message for message."""
    folder = stored(world.home, info(world.project), conversation())
    async with world.host() as hf:
        await hf.import_transcripts(folder)
        first = await conversation_of(hf, PARENT)
    async with world.host(data=tmp_path / "other") as hf:
        report = await hf.import_transcripts(exported(tmp_path, {"data": first}))
        second = await conversation_of(hf, PARENT)
    assert report.sessions[0].left_out == {}
    assert second["messages"] == first["messages"]
    assert {**second["info"], "time": None} == {**first["info"], "time": None}


async def test_a_session_of_ours_is_exported_and_imported_under_another_id(world: World) -> None:
    """OPS-433, OPS-434: its id is in use, so that the copy has another one; and once more changes nothing."""
    world.model.plays(Turn(text="a", reasoning="r"), calling("read", filePath="hello.txt"), Turn(text="b"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        await ask(hf, session, "two")
        original = await conversation_of(hf, session.id)
        path = exported(world.home, original)
        report = await hf.import_transcripts(path)
        (copy,) = report.sessions
        copied = await conversation_of(hf, copy.id)
        again = await hf.import_transcripts(path)
    assert copy.source_id == session.id != copy.id
    assert (copy.outcome, again.sessions[0].outcome, again.sessions[0].id) == ("imported", "unchanged", copy.id)

    def without_ids(document: Json) -> list[Json]:
        return [{**message, "id": "", "sessionID": "", "snapshot": ""} for message in document["messages"]]

    assert without_ids(copied) == without_ids(original)


async def test_children_come_with_their_parents(world: World) -> None:
    """OPS-430: and a parent that is not part of the import is told."""
    child = [user(1, {"type": "text", "text": "do it"}, session=CHILD), assistant(2, session=CHILD)]
    stored(world.home, info(world.project), conversation())
    folder = stored(world.home, info(world.project, CHILD, parentID=PARENT), child)
    alone = exported(world.home, {"info": info(world.project, CHILD, parentID=PARENT), "messages": child})
    async with world.host() as hf:
        report = await hf.import_transcripts(folder)
        tree = await hf.sessions.tree(PARENT)
    async with world.host(data=world.home / "other") as hf:
        without = await hf.import_transcripts(alone)
        assert (await hf.sessions.get(CHILD)).parent_id is None
    assert [session.id for session in report.sessions] == [PARENT, CHILD]
    assert [node.id for node in tree.nodes] == [PARENT, CHILD]
    assert without.sessions[0].left_out == {"parents that are not part of it": 1}


async def test_compactions_and_unfinished_work_are_converted_and_told(world: World) -> None:
    """OPS-431: what has no place is counted by kind."""
    messages = [
        *conversation()[:3],
        user(6, {"type": "compaction", "auto": False}),
        assistant(7, {"type": "text", "text": "a summary"}, summary=True),
        user(8, {"type": "text", "text": "more"}, {"type": "subtask", "prompt": "x"}),
        assistant(9, call(status="running"), {"type": "odd"}, time={"created": TIME + 9000}),
        {"info": {"id": message_id(10), "role": "alien"}, "parts": []},
    ]
    path = exported(world.home, {"info": info(world.project, share={"url": "x"}), "messages": messages})
    async with world.host() as hf:
        report = await hf.import_transcripts(path)
        found = (await hf.sessions.messages(PARENT, order="asc")).items
    assert [message.type for message in found][-3:] == ["compaction", "user", "assistant"]
    assert found[-3].text == "a summary"
    assert report.sessions[0].left_out == {
        "ends of unfinished answers": 1,
        "messages of an unknown kind": 1,
        "parts of an unknown kind": 1,
        "results of unfinished calls": 1,
        "shared links": 1,
        "snapshots of files": 1,
        "subtasks": 1,
    }


async def test_later_messages_of_2_0_are_understood(world: World) -> None:
    """OPS-430, OPS-431: parts without ids, other names of states and errors, and kinds that came later."""
    time = {"created": TIME, "completed": TIME + 100}
    model = {"id": "claude-x", "providerID": "anthropic"}
    answer = {"type": "assistant", "time": time, "agent": "build", "model": model}
    calls: list[Json] = [
        {
            "id": "c1",
            "name": "read",
            "state": {"status": "completed", "input": {}, "content": [], "metadata": {"n": 1}},
        },
        {"id": "c2", "name": "read", "state": {"status": "streaming", "input": "{"}},
        {
            "id": "c3",
            "name": "web",
            "executed": True,
            "state": {"status": "error", "input": {}, "error": {"type": "aborted", "message": "no"}},
        },
    ]
    content = [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        *({"type": "tool", **call} for call in calls),
    ]
    kinds: list[Json] = [
        {"type": "user", "text": "look", "files": [{"data": "aGk=", "mime": "text/plain", "name": "x"}]},
        {"type": "synthetic", "text": "added"},
        {"type": "skill", "skill": "s", "name": "deploy", "text": "how to"},
        {"type": "location-switched", "location": {"directory": "/y"}},
        {
            "type": "shell",
            "shellID": "sh_1",
            "command": "ls",
            "status": "exited",
            "exit": 0,
            "output": {"output": "x", "truncated": True},
        },
        {**answer, "content": content, "finish": "stop", "cost": 0.5, "tokens": USED},
        {**answer, "content": [], "error": {"type": "provider.rate-limit", "message": "slow down"}},
        {"type": "compaction", "status": "failed", "reason": "auto"},
        {"type": "compaction", "status": "completed", "reason": "auto", "summary": "all of it"},
    ]
    messages = [{"id": message_id(number), "time": time, **kind} for number, kind in enumerate(kinds)]
    record = {
        "id": PARENT,
        "projectID": "global",
        "title": "t",
        "location": {"directory": str(world.project)},
        "time": time,
    }
    async with world.host() as hf:
        report = await hf.import_transcripts(exported(world.home, {"info": record, "messages": messages}))
        found = (await hf.sessions.messages(PARENT, order="asc")).items
    assert report.refused == ()
    types = ["user", "synthetic", "synthetic", "shell", "assistant", "assistant", "compaction"]
    assert [message.type for message in found] == types
    assert [message.text for message in found] == ["look", "added", "how to", "x", "ab", "", "all of it"]
    first = found[4]
    assert isinstance(first, AssistantMessage)
    tools = [part for part in first.content if isinstance(part, ToolPart)]
    assert [part.state.status for part in tools] == ["completed", "error", "error"]
    assert isinstance(tools[0].state, ToolCompleted)
    assert tools[0].state.structured == {"n": 1}
    failed = found[5]
    assert isinstance(failed, AssistantMessage)
    assert failed.error is not None
    assert (failed.error.message, failed.error.code) == ("slow down", "provider.rate-limit")
    assert report.sessions[0].left_out == {
        "changes of the directory": 1,
        "compactions without a summary": 1,
        "rests of outputs": 1,
        "results of unfinished calls": 1,
    }


async def test_an_id_that_is_none_gets_another_one(world: World) -> None:
    """OPS-433"""
    messages = [user(1, {"type": "text", "text": "hello"})]
    messages[0]["info"]["id"] = "../../x"
    path = exported(world.home, {"info": info(world.project, "01J-old"), "messages": messages})
    async with world.host() as hf:
        first = await hf.import_transcripts(path)
        again = await hf.import_transcripts(path)
    assert first.sessions[0].source_id == "01J-old"
    assert first.sessions[0].id.startswith("ses_")
    assert (again.sessions[0].outcome, again.sessions[0].id) == ("unchanged", first.sessions[0].id)


HOSTILE: dict[str, Any] = {
    "no JSON": "{",
    "another document": "{}",
    "deep": '{"info": ' + "[" * 200_000,
    "deep message": '{"info": {"id": "ses_1"}, "messages": [{"type": "user", "metadata": '
    + '{"a":' * 500
    + "1"
    + "}" * 500
    + "}]}",
    "types": '{"info": {"id": 7, "directory": []}, "messages": [7]}',
    "messages": '{"info": {"id": "ses_1", "directory": "/x"}, "messages": {"a": 1}}',
    "relative": '{"info": {"id": "ses_1", "directory": "../x"}, "messages": []}',
    "a message that is none": '{"info": {"id": "ses_1", "directory": "/x"}, "messages": [{"type": "user", "text": 1}]}',
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_cannot_be_read_is_refused_with_the_reason(world: World, name: str) -> None:
    """OPS-435: and nothing of it is imported."""
    path = world.home / "hostile.json"
    path.write_text(HOSTILE[name], encoding="utf-8")
    async with world.host() as hf:
        report = await hf.import_transcripts(path)
        assert (await hf.sessions.list()).items == []
    assert report.sessions == ()
    (refused,) = report.refused
    assert refused.source == str(path)
    assert refused.problem


async def test_foreign_names_are_no_paths_and_wrong_types_are_absent(world: World) -> None:
    """OPS-435: links are not followed, and a record with the name of another is refused."""
    secret = world.home / "secret.json"
    secret.write_text(json.dumps({"type": "text", "text": "SECRET", "id": "prt_x"}), encoding="utf-8")
    messages = [user(1, {"type": "text", "text": "hello"}), assistant(2, {"type": "text", "text": ["no"]}, cost="much")]
    folder = stored(world.home, info(world.project), messages)
    part_folder = folder / "storage" / "part" / message_id(1)
    os.symlink(secret, part_folder / "prt_zzz.json")
    (folder / "storage" / "session" / "0123abcd" / "ses_1234567890wrong.json").write_text(
        json.dumps(info(world.project))
    )
    header = {**user(3)["info"], "id": "../../../secret"}
    (folder / "storage" / "message" / PARENT / "msg_zzz.json").write_text(json.dumps(header))
    async with world.host() as hf:
        report: TranscriptReport = await hf.import_transcripts(folder)
        document = await conversation_of(hf, PARENT)
    assert "SECRET" not in json.dumps(document)
    assert [session.id for session in report.sessions] == [PARENT]
    assert [refused.problem for refused in report.refused] == ["its name is not the id of a session in it"]
    assert document["info"]["cost"] == 0


async def test_empty_conversations_of_a_folder_are_left_out_and_counted(world: World) -> None:
    """OPS-478: quickly, however many there are, and the others are imported."""
    empty = [(info(world.project, f"ses_empty{number:021}"), list[Json]()) for number in range(3_000)]
    path = in_database(world.home / "opencode.db", *empty, (info(world.project), conversation()))
    async with world.host() as hf, asyncio.timeout(30):
        report = await hf.import_transcripts(path)
        assert (report.empty, [session.id for session in report.sessions]) == (3_000, [PARENT])
        assert len((await hf.sessions.list()).items) == 1


def test_the_command_recognises_what_it_is_given(holdfast: Machine) -> None:
    """OPS-436"""
    path = exported(holdfast.home, {"info": info(holdfast.project), "messages": conversation()})
    folder = stored(holdfast.home, info(holdfast.project, CHILD), [user(1, session=CHILD)])
    (folder / "storage" / "session" / "0123abcd" / "ses_broken.json").write_text("{")
    first = holdfast("import", str(path))
    assert (first.code, first.out) == (0, f"{path}: 1 session (1 imported), 27 new events\n")
    assert "left out, because a session has no place for it: 1 snapshots of files" in first.err
    assert "1 unchanged" in holdfast("import", str(path)).out
    partly = holdfast("import", str(folder))
    assert partly.code == 1
    assert "2 sessions (1 imported, 1 refused)" in partly.out
    assert "ses_broken.json" in partly.err
    told = json.loads(holdfast("import", str(path), "--json").out)
    assert told["sessions"][0]["outcome"] == "unchanged"
    assert "Title of GhIj" in holdfast("sessions").out
    nothing = holdfast("import", str(holdfast.project))
    assert nothing.code == 1
    assert "no folder `session`" in nothing.err
