"""Files are read, searched, changed and restored only where they may be, whatever moves meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.outside.acp_editor import Editor, editor
from tests.outside.scripted_provider import Turn, calling
from tests.outside.swapping import swapped
from tests.outside.world import Hands, World, ask, called, hands

from holdfast import ApiError, Location
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.session_message import ToolCompleted, ToolError

pytestmark = pytest.mark.anyio

SECONDS = 3.0
SECRET = "the secret of somebody else"


@pytest.fixture
def outside(world: World) -> Path:
    """A directory with the same names as the one that is swapped, and further ones."""
    folder = world.home / "outside"
    folder.mkdir()
    (folder / "notes.txt").write_text(f"needle {SECRET}\n", encoding="utf-8")
    (folder / "id_rsa").write_text(f"needle {SECRET}\n", encoding="utf-8")
    world.write("d/notes.txt", "needle of the project\n")
    return folder


async def tried(hand: Hands, world: World, hf: Any, name: str, **input: Any) -> str:
    """What the model reads of a call, whether it succeeds or not."""
    await called(world, hf, hand.session, name, **input)
    return hand.reads


async def test_searches_return_nothing_through_a_link_that_is_swapped_in(world: World, outside: Path) -> None:
    """TOL-500: no line and no name from elsewhere, while a process exchanges a directory and a link."""
    for number in range(200):
        world.write(f"d/many/f{number}.txt", "needle\n")
    async with world.host() as hf:
        hand = await hands(world, hf)
        ends = time.monotonic() + SECONDS
        with swapped(world.project / "d", outside):
            while time.monotonic() < ends:
                assert SECRET not in await tried(hand, world, hf, "grep", pattern="needle", path="d")
                assert SECRET not in await tried(hand, world, hf, "grep", pattern="needle")
                assert "id_rsa" not in await tried(hand, world, hf, "glob", pattern="**/*")


async def test_a_revert_touches_nothing_outside(world: World, outside: Path) -> None:
    """TOL-501: it writes and removes files, while a process exchanges their folder and a link."""
    world.repository()
    for name in ("new.txt", "gone.txt"):
        (outside / name).write_text("as it was\n", encoding="utf-8")
    world.write("d/gone.txt", "to be restored\n")
    before = {file.name: file.read_bytes() for file in outside.iterdir()}
    async with world.host() as hf:
        session = await hf.sessions.create()
        world.model.plays(calling("write", path="d/notes.txt", content="changed\n"))
        await ask(hf, session, "one", id="msg_one")
        world.model.plays(calling("write", path="d/new.txt", content="new\n"))
        await ask(hf, session, "two", id="msg_two")
        ends = time.monotonic() + SECONDS
        with swapped(world.project / "d", outside):
            while time.monotonic() < ends:
                with suppress(ApiError, HoldfastError):
                    await hf.sessions.stage_revert(session.id, message_id="msg_one")
                with suppress(ApiError, HoldfastError):
                    await hf.sessions.clear_revert(session.id)
                assert {file.name: file.read_bytes() for file in outside.iterdir()} == before


OWN = {
    "data/credentials.json": "a key of a provider",
    "state/holdfast/server-password": "the password",
    "config/opencode/keys.json": "another key",
}


@pytest.mark.parametrize("directory", [".", ".."], ids=["home", "above"])
async def test_own_folders_are_no_part_of_a_location(world: World, directory: str) -> None:
    """TOL-502: not for a Session in the home directory or above it, by any tool or spelling."""
    world.environment["XDG_STATE_HOME"] = str(world.home / "state")
    world.configure(permission={"external_directory": "deny"})
    for name, text in OWN.items():
        (world.home / name).parent.mkdir(parents=True, exist_ok=True)
        (world.home / name).write_text(f"{text}\n", encoding="utf-8")
    (world.home / "link").symlink_to("state/holdfast")
    location = (world.home / directory).resolve()
    beside = (world.home / "beside.txt").resolve()
    beside.write_text("a key that is nobody's\n", encoding="utf-8")
    async with world.host(directory=location) as hf:
        hand = await hands(world, hf)
        paths = [str((world.home / name).resolve()) for name in OWN]
        paths += [os.path.relpath(path, location) for path in paths]
        paths += [str(world.home.resolve() / "link/server-password"), f"/proc/{os.getpid()}/root{paths[0]}"]
        for path in paths:
            refused = await tried(hand, world, hf, "read", path=path)
            assert "Unable to read" in refused or "Permission denied: external_directory" in refused
            for name, input in (
                ("write", {"path": path, "content": "x"}),
                ("edit", {"path": path, "oldString": "key", "newString": "x"}),
                ("apply_patch", {"patchText": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"}),
            ):
                await tried(hand, world, hf, name, **input)
        found = await tried(hand, world, hf, "grep", pattern="key|password")
        assert "nobody's" in found
        assert not any(text in found for text in OWN.values())
        for pattern in ("**/credentials.json", "**/server-password", "**/keys.json"):
            assert "No files found" in await tried(hand, world, hf, "glob", pattern=pattern)
        assert "Unable" in await tried(hand, world, hf, "grep", pattern="key", path=str(world.home / "data"))
    assert {name: (world.home / name).read_text() for name in OWN} == {name: f"{text}\n" for name, text in OWN.items()}


async def test_managed_outputs_and_skills_stay_readable_and_searchable(world: World) -> None:
    """TOL-502, TOL-503: they are below the data and the configuration."""
    skill = world.user_folder / "skills/tidy/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tidy\ndescription: Tidies\n---\nA needle in a skill\n", encoding="utf-8")
    async with world.host(directory=world.home) as hf:
        hand = await hands(world, hf)
        shown = await tried(hand, world, hf, "bash", command="seq 1 30000; echo needle")
        managed = next(word for word in shown.replace('"', " ").split() if "/tool-output/tool_" in word).strip(".,;)]")
        state = (await called(world, hf, hand.session, "read", path=managed, limit=2)).state
        assert isinstance(state, ToolCompleted)
        assert "needle" in await tried(hand, world, hf, "grep", pattern="needle", path=managed)
        state = (await called(world, hf, hand.session, "read", path=str(skill))).state
        assert isinstance(state, ToolCompleted)
        found = await tried(hand, world, hf, "grep", pattern="needle")
        assert "SKILL.md" in found
        assert "tool-output" in found


async def test_a_move_by_a_patch_needs_to_read_the_file(world: World) -> None:
    """TOL-505: otherwise a file that may not be read could be read under another name."""
    world.configure(permission={"read": {"*": "allow", "*.env": "deny"}})
    world.write("a.env", "TOKEN=1\n")
    patch = "*** Begin Patch\n*** Update File: a.env\n*** Move to: plain.txt\n@@\n+# a\n*** End Patch"
    async with world.host() as hf:
        hand = await hands(world, hf)
        state = (await called(world, hf, hand.session, "apply_patch", patchText=patch)).state
        assert isinstance(state, ToolError)
    assert (world.project / "a.env").read_text() == "TOKEN=1\n"
    assert not (world.project / "plain.txt").exists()


async def test_a_failed_edit_quotes_no_file_that_is_asked_about(world: World) -> None:
    """TOL-505: the lines nearest to what was not found help only somebody who may read the file."""
    for name in (".env", "plain.txt"):
        world.write(name, "TOKEN=abcdef\n")
    async with world.host() as hf:
        hand = await hands(world, hf)
        wrong = {"oldString": "TOKEN=xbcdefg", "newString": "x"}
        assert "abcdef" in await tried(hand, world, hf, "edit", path="plain.txt", **wrong)
        assert "abcdef" not in await tried(hand, world, hf, "edit", path=".env", **wrong)


@pytest.mark.parametrize(
    ("directory", "path", "protected"),
    [
        (".git", "config", True),
        (".git/hooks", "pre-commit", True),
        (".opencode", "agent/a.md", True),
        (".", ".Git/config", True),
        (".", "sub/.OPENCODE/agent.md", True),
        (".", "OpenCode.json", True),
        (".", ".git", True),
        (".", "git/config", False),
        ("sub", "config", False),
    ],
)
async def test_protected_names_are_those_of_the_real_path(
    world: World, directory: str, path: str, protected: bool
) -> None:
    """TOL-504: whatever the Session's directory is, and in whatever case they are written."""
    (world.project / directory).mkdir(parents=True, exist_ok=True)
    async with world.host(unattended="deny") as hf:
        hand = await hands(world, hf, location=Location(directory=str(world.project / directory)))
        state = (await called(world, hf, hand.session, "write", path=path, content="planted")).state
        assert isinstance(state, ToolError if protected else ToolCompleted), state
    if protected and (file := world.project / directory / path).is_file():
        assert "planted" not in file.read_text()


class FollowingEditor(Editor):
    """Opens what it is told by the path, like any editor."""

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
        await asyncio.sleep(0.002)
        try:
            return {"content": Path(path).read_text(encoding="utf-8")}
        except OSError:
            return await super().read_text_file(session_id, path)

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
        await asyncio.sleep(0.002)
        with suppress(OSError):
            Path(path).write_text(content, encoding="utf-8")
        return {}


async def test_nothing_of_an_editor_counts_that_came_through_a_link_that_is_swapped_in(
    world: World, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-507: what the editor answers counts only if the path stayed; a file whose path does not is written by
    Holdfast itself. A write that was under way cannot be held back, and is no success."""
    monkeypatch.setattr("tests.outside.acp_editor.Editor", FollowingEditor)
    before = (outside / "notes.txt").read_bytes()
    async with editor(world, {"fs": {"readTextFile": True, "writeTextFile": True}}) as ed:
        session = await ed.open(world)
        ends = time.monotonic() + SECONDS
        with swapped(world.project / "d", outside):
            while time.monotonic() < ends:
                world.model.plays(
                    calling("read", path="d/notes.txt"),
                    calling("write", path="d/notes.txt", content="of the agent\n"),
                    Turn(text="Done."),
                )
                await ed.prompt(session, "go")
                assert not any(SECRET in result for result in world.model.last.results)
                if (outside / "notes.txt").read_bytes() != before:
                    assert "successfully" not in world.model.last.results[-1]
                    (outside / "notes.txt").write_bytes(before)
        shown = json.dumps([update for _, update in ed.updates])
    assert SECRET not in shown
