"""Files that an editor has open: unsaved text is what the agent reads and edits, and changes go through the editor."""

from __future__ import annotations

import pytest
from tests.outside.acp_editor import editor
from tests.outside.scripted_provider import Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World

pytestmark = pytest.mark.anyio

BOTH = {"fs": {"readTextFile": True, "writeTextFile": True}}
READ_ONLY = {"fs": {"readTextFile": True, "writeTextFile": False}}
PATCH = "*** Begin Patch\n*** Update File: hello.txt\n@@\n-hello unsaved\n+hello patched\n*** End Patch\n"


async def test_the_agent_reads_and_edits_what_is_not_saved_yet(world: World) -> None:
    """ACP-080, ACP-081: the disk is left to the editor, which writes; the diff is that of the buffer."""
    world.model.plays(
        calling("read", path="hello.txt"),
        calling("edit", path="hello.txt", oldString="unsaved", newString="edited"),
        calling("write", path="new.txt", content="new\n"),
        Turn(text="Done."),
    )
    async with editor(world, BOTH) as ed:
        path, new = str(world.project.resolve() / "hello.txt"), str(world.project.resolve() / "new.txt")
        ed.files[path] = "hello unsaved\n"
        session = await ed.open(world)
        assert await ed.prompt(session, "Edit") == "end_turn"
        assert "hello unsaved" in world.model.requests[1].results[-1]
        assert ed.written == {path: "hello edited\n", new: "new\n"}
        calls = list(ed.calls().values())
        assert [call["status"] for call in calls] == ["completed"] * 3
        assert calls[1]["content"] == [
            {"type": "diff", "path": path, "oldText": "hello unsaved\n", "newText": "hello edited\n"}
        ]
    assert (world.project / "hello.txt").read_text() == "hello world\n"
    assert not (world.project / "new.txt").exists()


async def test_unsaved_text_is_never_overwritten_on_the_disk(world: World) -> None:
    """ACP-082: an editor that cannot write, and a patch, which is not given to the editor."""
    world.model.plays(
        calling("edit", path="hello.txt", oldString="unsaved", newString="edited"),
        calling("write", path="hello.txt", content="x\n"),
        calling("apply_patch", patchText=PATCH),
        Turn(text="Please save it."),
    )
    async with editor(world, READ_ONLY) as ed:
        ed.files[str(world.project.resolve() / "hello.txt")] = "hello unsaved\n"
        session = await ed.open(world)
        assert await ed.prompt(session, "Edit") == "end_turn"
        assert [call["status"] for call in ed.calls().values()] == ["failed"] * 3
        assert all("not saved" in result for result in world.model.last.results)
    assert (world.project / "hello.txt").read_text() == "hello world\n"


async def test_an_editor_that_refuses_a_file_fails_the_call_with_its_reason(world: World) -> None:
    """ACP-083"""
    world.model.plays(calling("write", path="hello.txt", content="x\n"), Turn(text="Oh."))
    async with editor(world, BOTH) as ed:
        ed.refused.add(str(world.project.resolve() / "hello.txt"))
        session = await ed.open(world)
        assert await ed.prompt(session, "Write") == "end_turn"
        assert "the editor refused" in world.model.last.results[-1]
    assert (world.project / "hello.txt").read_text() == "hello world\n"


async def test_files_are_those_of_the_sessions_that_the_editor_has_open(world: World) -> None:
    """ACP-080: a subagent reads the buffer too; what the editor does not have comes from the disk."""
    world.model.always = Cast(root=[delegating("child")], child=[calling("read", path="hello.txt")])
    async with editor(world, BOTH) as ed:
        ed.files[str(world.project.resolve() / "hello.txt")] = "hello unsaved\n"
        session = await ed.open(world)
        await ed.prompt(session, "root")
        read = next(request for request in world.model.requests if request.results and "hello" in request.results[-1])
        assert "hello unsaved" in read.results[-1]
        ed.files.clear()
        world.model.plays(calling("read", path="hello.txt"), Turn(text="Read."))
        other = await ed.open(world)
        await ed.prompt(other, "plain")
        assert "hello world" in world.model.last.results[-1]
