"""Files of a tree written while their folders are exchanged, and what is written otherwise."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.project.project import Project
from holdfast.core.snapshot import written_files
from holdfast.core.snapshot.errors import SnapshotError
from holdfast.core.snapshot.snapshot import Snapshots

pytestmark = pytest.mark.anyio


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    subprocess.run(("git", "init", "--quiet", str(tmp_path / "work")), check=True)
    return tmp_path / "work"


@pytest.fixture
def snapshots(worktree: Path, tmp_path: Path) -> Snapshots:
    return Snapshots(Project(id="p", directory=worktree, store=worktree / ".git"), tmp_path / "snapshot")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("f", "new"):
        (folder / name).write_text("outside", encoding="utf-8")
    return folder


@pytest.mark.parametrize("step", ["_create", "_rename", "_remove"])
async def test_a_folder_that_is_exchanged_during_a_restore(
    worktree: Path, snapshots: Snapshots, outside: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """TOL-501: before a file is written, before it gets its name, and before one is removed."""
    (worktree / "d").mkdir()
    (worktree / "d/f").write_text("one", encoding="utf-8")
    tree = await snapshots.capture()
    (worktree / "d/f").write_text("two", encoding="utf-8")
    (worktree / "d/new").write_text("new", encoding="utf-8")
    original = getattr(written_files, step)

    def exchanging(*arguments: Any) -> Any:
        if not (worktree / "d").is_symlink():
            os.rename(worktree / "d", worktree / "away")
            (worktree / "d").symlink_to(outside)
        return original(*arguments)

    monkeypatch.setattr(written_files, step, exchanging)
    await snapshots.restore(tree, ["d/f", "d/new"])
    assert sorted(path.name for path in outside.iterdir()) == ["f", "new"]
    assert {path.read_text(encoding="utf-8") for path in outside.iterdir()} == {"outside"}


async def test_modes_links_and_bytes_are_those_of_the_tree(worktree: Path, snapshots: Snapshots) -> None:
    """SES-168, TOL-501: a program, a link whose text is no UTF-8, an empty file, a large binary; times of files that
    are the same already stay."""
    (worktree / "run").write_text("#!/bin/sh\n", encoding="utf-8")
    (worktree / "run").chmod(0o755)
    os.symlink(b"to\xff", os.fsencode(worktree / "link"))
    (worktree / "empty").touch()
    data = os.urandom(9 * 1024 * 1024)
    (worktree / "large").write_bytes(data)
    (worktree / "same").write_text("same", encoding="utf-8")
    names = ["run", "link", "empty", "large", "same"]
    tree = await snapshots.capture()
    os.utime(worktree / "same", (1, 1))
    (worktree / "run").write_text("other", encoding="utf-8")
    (worktree / "run").chmod(0o644)
    (worktree / "link").unlink()
    (worktree / "link").mkdir()
    (worktree / "link/x").touch()
    (worktree / "empty").write_text("full", encoding="utf-8")
    (worktree / "large").unlink()
    await snapshots.restore(tree, names)
    assert stat.S_IMODE((worktree / "run").stat().st_mode) & 0o111
    assert os.readlink(os.fsencode(worktree / "link")) == b"to\xff"
    assert ((worktree / "empty").read_bytes(), (worktree / "large").read_bytes()) == (b"", data)
    assert (worktree / "same").stat().st_mtime == 1
    assert sorted(os.listdir(worktree)) == [".git", *sorted(names)]


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".GIT/config", "../f", "a/../../f", "/f"])
async def test_a_path_that_no_tree_of_ours_has_is_refused(snapshots: Snapshots, worktree: Path, path: str) -> None:
    """TOL-501"""
    tree = await snapshots.capture()
    with pytest.raises(SnapshotError, match="not a path for a file"):
        await snapshots.restore(tree, [path])


async def test_a_tree_has_only_files_of_the_worktree(
    worktree: Path, snapshots: Snapshots, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-506: what git reads while a folder is exchanged for a link is not kept; what is there counts."""
    (worktree / "d").mkdir()
    (worktree / "d/f").write_text("one", encoding="utf-8")
    (worktree / "d/gone").write_text("one", encoding="utf-8")
    add = Snapshots._add_to_index

    async def exchanging(self: Snapshots, paths: Any) -> None:
        await add(self, paths)
        # As if the file had been opened at a moment when its folder was a link.
        blob = (await self._git("capture", "hash-object", "-w", "--stdin", stdin=b"outside")).decode().strip()
        for path in ("d/f", "d/gone"):
            await self._git("capture", "update-index", "--cacheinfo", f"100644,{blob},{path}")
        (worktree / "d/gone").unlink()

    monkeypatch.setattr(Snapshots, "_add_to_index", exchanging)
    tree = await snapshots.capture()
    assert await snapshots._git("capture", "ls-tree", "-r", "--name-only", tree) == b"d/f\n"
    assert await snapshots._git("capture", "cat-file", "blob", f"{tree}:d/f") == b"one"
