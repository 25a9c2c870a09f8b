"""Text that an editor has not saved: asked for only where a file is text, and told apart from the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.core.filesystem.editor_files import UnsavedFiles
from holdfast.core.filesystem.location_path import LocationPaths, Target
from holdfast.core.filesystem.mutation import MAX_FILE_BYTES

pytestmark = pytest.mark.anyio


class Buffers:
    """An editor."""

    def __init__(self) -> None:
        self.texts: dict[Path, str] = {}
        self.asked: list[Path] = []
        self.writes = True

    async def read(self, session_id: str, path: Path) -> str | None:
        self.asked.append(path)
        return self.texts.get(path)

    async def write(self, session_id: str, path: Path, text: str) -> bool:
        if self.writes:
            self.texts[path] = text
        return self.writes


def at(root: Path, path: str) -> Target:
    return LocationPaths(root).resolve(path, "read", kind="directory")


@pytest.fixture
def buffers() -> Buffers:
    return Buffers()


@pytest.fixture
def edited() -> list[Path]:
    return []


@pytest.fixture
def unsaved(tmp_path: Path, buffers: Buffers, edited: list[Path]) -> UnsavedFiles:
    return UnsavedFiles(buffers, edited.append, tmp_path.resolve())


async def test_text_differs_if_more_than_its_line_endings_do(
    tmp_path: Path, buffers: Buffers, unsaved: UnsavedFiles
) -> None:
    """ACP-080"""
    file = tmp_path.resolve() / "a.txt"
    file.write_bytes(b"one\r\ntwo\r\n")
    target = at(tmp_path, "a.txt")
    assert await unsaved.text("ses_1", target) is None
    buffers.texts[file] = "one\ntwo\n"
    assert await unsaved.text("ses_1", target) is None
    buffers.texts[file] = "one\n2\n"
    assert await unsaved.text("ses_1", target) == "one\n2\n"
    buffers.texts[tmp_path.resolve() / "new.txt"] = ""
    assert await unsaved.text("ses_1", at(tmp_path, "new.txt")) == ""


async def test_what_is_no_text_is_not_asked_for(tmp_path: Path, buffers: Buffers, unsaved: UnsavedFiles) -> None:
    """ACP-080: a directory, a binary file, one that is too large, a pipe."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\0\1\2" * 100)
    (tmp_path / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "binary", "large", "pipe"):
        assert await unsaved.text("ses_1", at(tmp_path, name)) is None
    assert buffers.asked == []


async def test_what_the_editor_has_written_is_announced(
    tmp_path: Path, buffers: Buffers, unsaved: UnsavedFiles, edited: list[Path]
) -> None:
    """ACP-081"""
    target = at(tmp_path, "a.txt")
    assert await unsaved.write("ses_1", target, b"one\n")
    assert buffers.texts == {target.path: "one\n"}
    assert edited == [target.path]
    buffers.writes = False
    assert not await unsaved.write("ses_1", target, b"two\n")
    assert not await unsaved.write("ses_1", target, b"\0\xff")
    assert edited == [target.path]


async def test_without_an_editor_nothing_is_read(tmp_path: Path) -> None:
    """ACP-080"""
    without = UnsavedFiles(None, lambda path: None, tmp_path)
    target = at(tmp_path, "a.txt")
    assert (without.possible, await without.text("ses_1", target)) == (False, None)
    assert not await without.write("ses_1", target, b"x")
