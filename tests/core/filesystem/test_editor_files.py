"""Text that an editor has not saved: asked for only where a file is text, and told apart from the disk."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.core.filesystem.editor_files import UnsavedFiles
from holdfast.core.filesystem.errors import FileError
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


class ExchangingBuffers(Buffers):
    """Follows the path, which leads elsewhere at that moment and back again afterwards."""

    def __init__(self, folder: Path, outside: Path) -> None:
        super().__init__()
        self._folder, self._outside = folder, outside

    async def read(self, session_id: str, path: Path) -> str | None:
        with self._exchanged():
            return path.read_text(encoding="utf-8")

    async def write(self, session_id: str, path: Path, text: str) -> bool:
        with self._exchanged():
            path.write_text(text, encoding="utf-8")
        return True

    @contextmanager
    def _exchanged(self) -> Iterator[None]:
        away = self._folder.with_name("away")
        self._folder.rename(away)
        self._folder.symlink_to(self._outside)
        yield
        self._folder.unlink()
        away.rename(self._folder)


async def test_an_exchange_that_was_taken_back_is_noticed(tmp_path: Path) -> None:
    """TOL-507: the editor's text is thrown away, and a change that may have gone elsewhere fails."""
    root, outside = tmp_path.resolve() / "work", tmp_path.resolve() / "outside"
    for folder, text in ((root / "d", "inside"), (outside, "outside")):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text(text, encoding="utf-8")
    unsaved = UnsavedFiles(ExchangingBuffers(root / "d", outside), lambda path: None, root)
    target = at(root, "d/a.txt")
    with pytest.raises(FileError, match="nothing of the editor's text is used"):
        await unsaved.text("ses_1", target)
    with pytest.raises(OSError, match="may be in another file"):
        await unsaved.write("ses_1", target, b"text")
    assert (root / "d/a.txt").read_text(encoding="utf-8") == "inside"


async def test_a_path_that_does_not_stay_is_not_written_by_the_editor(tmp_path: Path, buffers: Buffers) -> None:
    """TOL-507: then Holdfast writes the file itself."""
    root = tmp_path.resolve()
    (root / "d").mkdir()
    unsaved = UnsavedFiles(buffers, lambda path: None, root)
    target = at(root, "d/a.txt")
    (root / "d").rename(root / "away")
    (root / "d").symlink_to(root / "away")
    assert not await unsaved.write("ses_1", target, b"text")
    assert buffers.texts == {}


async def test_an_editor_without_the_file_is_in_nobodys_way(tmp_path: Path, buffers: Buffers) -> None:
    """TOL-507: also while the directory changes all the time."""
    root = tmp_path.resolve()
    unsaved = UnsavedFiles(buffers, lambda path: None, root)
    (root / "a.txt").write_text("one\n", encoding="utf-8")
    target = at(root, "a.txt")
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            (root / "busy").touch()
            (root / "busy").unlink()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        assert await unsaved.text("ses_1", target) is None
    finally:
        stop.set()
        thread.join()


async def test_a_file_in_a_directory_that_is_missing_is_not_written_by_the_editor(
    tmp_path: Path, buffers: Buffers
) -> None:
    """TOL-507: a link could be put in the place of the directory. Holdfast makes it."""
    root = tmp_path.resolve()
    unsaved = UnsavedFiles(buffers, lambda path: None, root)
    assert not await unsaved.write("ses_1", at(root, "new/a.txt"), b"text")
    assert buffers.texts == {}
    await asyncio.sleep(0.03)
    assert await unsaved.write("ses_1", at(root, "a.txt"), b"text")
