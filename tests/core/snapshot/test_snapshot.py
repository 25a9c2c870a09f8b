"""Trees of a project's files, whatever else lies among them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.core.location.project import Project
from holdfast.core.snapshot.snapshot import Snapshots

pytestmark = pytest.mark.anyio


def initialize(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(("git", "init", "--quiet", str(folder)), check=True)
    return folder


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    return initialize(tmp_path / "work")


@pytest.fixture
def snapshots(worktree: Path, tmp_path: Path) -> Snapshots:
    project = Project(id="p", directory=worktree, store=worktree / ".git")
    return Snapshots(project, tmp_path / "snapshot")


async def test_a_repository_below_without_a_commit_hides_nothing(worktree: Path, snapshots: Snapshots) -> None:
    """SES-168: what a generator of projects leaves behind must not cost the files around it."""
    (worktree / "a").write_text("one\n", encoding="utf-8")
    before = await snapshots.capture()
    initialize(worktree / "deep/fresh")
    (worktree / "deep/fresh/main").write_text("x\n", encoding="utf-8")
    (worktree / "deep/beside").write_text("x\n", encoding="utf-8")
    (worktree / "a").write_text("two\n", encoding="utf-8")
    after = await snapshots.capture()
    assert sorted(await snapshots.files(before, after)) == ["a", "deep/beside"]
    await snapshots.restore(before, ["a", "deep/beside"])
    assert (worktree / "a").read_text(encoding="utf-8") == "one\n"
    assert not (worktree / "deep/beside").exists()


async def test_a_hook_of_git_does_not_lead_elsewhere(
    worktree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-168: started from a hook, the runtime inherits variables that name another repository."""
    other = initialize(tmp_path / "other")
    (worktree / "a").write_text("one\n", encoding="utf-8")
    for name, value in {"GIT_DIR": other / ".git", "GIT_WORK_TREE": other, "GIT_INDEX_FILE": other / "index"}.items():
        monkeypatch.setenv(name, str(value))
    snapshots = Snapshots(Project(id="p", directory=worktree, store=worktree / ".git"), tmp_path / "snapshot")
    first = await snapshots.capture()
    (worktree / "b").write_text("two\n", encoding="utf-8")
    assert await snapshots.files(first, await snapshots.capture()) == ["b"]
    assert os.listdir(other) == [".git"]
