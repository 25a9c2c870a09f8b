"""Trees of a project's files, taken by several at once."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import NoInput, ToolRuntime, event_types, new_session, tables
from tests.core.runtime.test_moves import git as run
from tests.core.runtime.test_moves import repository

from holdfast.core.process.git import Git
from holdfast.core.project.project import find_project
from holdfast.core.snapshot import snapshot as module
from holdfast.core.snapshot.errors import SnapshotError
from holdfast.core.snapshot.snapshot import LEFT_SECONDS, Snapshots
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.llm.offline import Call, ScriptedTransport, Turn

pytestmark = pytest.mark.anyio


async def test_two_locations_of_a_project_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    """SES-112, SES-060: both take their trees at the same time, and one goes on when the other is closed."""
    root = repository(tmp_path / "one")
    project = await find_project(root)
    several = [Snapshots(project, tmp_path / "store") for _ in range(6)]
    assert len(set(await asyncio.gather(*(taken.capture() for taken in several)))) == 1
    one, other, *others = several
    for text in ("first", "second", "third"):
        (root / "a.txt").write_text(text, encoding="utf-8")
        tree, same = await asyncio.gather(one.capture(), other.capture())
        assert tree == same
    one.close()
    assert await other.capture() == tree
    for taken in (other, *others):
        taken.close()
    (store,) = (tmp_path / "store").iterdir()
    assert [path.name for path in store.glob("*index*")] == ["kept-index"]


async def test_the_index_and_lock_of_a_dead_process_are_removed(tmp_path: Path) -> None:
    """SES-112: its index, and the lock that would be in the way of whoever gets its number; not a living one's."""
    project = await find_project(repository(tmp_path / "one"))
    first = Snapshots(project, tmp_path / "store")
    tree = await first.capture()
    (store,) = (tmp_path / "store").iterdir()
    left = [store / "index.1", store / "index.1.lock"]
    for path in left:
        path.touch()
        os.utime(path, (0, time.time() - LEFT_SECONDS - 1))
    assert await Snapshots(project, tmp_path / "store").capture() == tree
    assert not [path for path in left if path.exists()]
    assert await first.capture() == tree


async def test_any_number_of_files_goes_back_and_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-168, SES-169: no command line grows with them; what is shown of them is bounded, what is counted is not."""
    root = repository(tmp_path / "one")
    snapshots = Snapshots(await find_project(root), tmp_path / "store")
    longest = 0

    run = Git.run

    async def watched(git: Git, *arguments: str, **options: Any) -> bytes:
        nonlocal longest
        longest = max(longest, len(arguments))
        return await run(git, *arguments, **options)

    names = [f"new {number}.txt" for number in range(30)]
    before = await snapshots.capture()
    for name in (*names, "a.txt"):
        (root / name).write_text("text\n", encoding="utf-8")
    monkeypatch.setattr(Git, "run", watched)
    monkeypatch.setattr(module, "PATCHED_FILES", 2)
    after = await snapshots.capture()
    changes = await snapshots.diff(before, after, [*names, "sub/b.txt"])
    assert sorted(change.path for change in changes) == sorted(names)
    assert {(change.status, change.additions) for change in changes} == {("added", 1)}
    assert [bool(change.patch) for change in changes] == [True, True, *[False] * 28]
    await snapshots.restore(before, ["a.txt", *names])
    assert await snapshots.capture() == before
    await snapshots.restore(after, ["a.txt", *names])
    assert await snapshots.capture() == after
    assert longest < 12


async def test_a_nested_repository_without_commits_does_not_prevent_a_snapshot(tmp_path: Path) -> None:
    """SES-112: a repository without a commit inside the project does not cost the tree of everything else."""
    root = repository(tmp_path / "one")
    (root / "inner").mkdir()
    run(root / "inner", "init", "--quiet")
    (root / "inner" / "x.txt").write_text("x", encoding="utf-8")
    snapshots = Snapshots(await find_project(root), tmp_path / "store")
    before = await snapshots.capture()
    (root / "a.txt").write_text("changed\n", encoding="utf-8")
    assert await snapshots.files(before, await snapshots.capture()) == ["a.txt"]
    lock = snapshots._index.with_name(f"{snapshots._index.name}.lock")
    lock.touch()
    (root / "a.txt").write_text("changed again\n", encoding="utf-8")
    with pytest.raises(SnapshotError, match="lock"):
        await snapshots.capture()


async def test_a_name_in_no_encoding_is_no_reason_to_stop(tmp_path: Path) -> None:
    """SES-112, SES-109: a tool makes a file whose name is not text; the step ends, and the next turn is taken."""
    root = repository(tmp_path / "one")

    async def make(given: NoInput, context: ToolContext) -> dict[str, Any]:
        os.close(os.open(os.fsencode(root) + b"/caf\xe9.txt", os.O_CREAT | os.O_WRONLY))
        (root / "plain.txt").write_text("plain")
        return {}

    model = ScriptedTransport([Turn(text="making", calls=(Call(tool="make", input={}),)), Turn(text="done")])
    tools = {"make": Tool(description="makes", input=NoInput, output=dict[str, Any], execute=make)}
    async with ToolRuntime(data=tmp_path / "data", directory=root, transport=model, tools=tools) as runtime:
        session = await new_session(runtime)
        await runtime.sessions.run(session.id)
        types = await event_types(runtime, session.id)
        assert types.count("step.ended") == 2
        with tables(runtime) as sql:
            ((captured,),) = sql("select data from event where type like '%snapshot.captured%'")
        # Only the names: ids in the event may contain any letters.
        assert json.loads(captured)["files"] == ["plain.txt"]
