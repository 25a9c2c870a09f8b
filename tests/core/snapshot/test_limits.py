"""Files that are too large or too many for a snapshot."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.core.runtime.test_moves import repository

from holdfast.core.process.git import Git
from holdfast.core.project.project import Project, find_project
from holdfast.core.snapshot import snapshot as module
from holdfast.core.snapshot.errors import SnapshotError
from holdfast.core.snapshot.limits import MOST_EXCLUDED, SnapshotLimits, TooMuch, files_too_large
from holdfast.core.snapshot.snapshot import Snapshots

pytestmark = pytest.mark.anyio

LIMITS = SnapshotLimits(file_bytes=1000, files=20)


class Taken(Snapshots):
    """With limits that a test can change, and the commands that were run."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.limits = LIMITS
        self.ran: list[str] = []
        super().__init__(project, folder, limits=lambda: self.limits)

    def switched_off(self) -> bool:
        return not self.possible

    async def _git(self, operation: Any, *arguments: str, **options: Any) -> bytes:
        self.ran.append(arguments[0])
        return await super()._git(operation, *arguments, **options)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "one")


@pytest.fixture
async def snapshots(root: Path, tmp_path: Path) -> Taken:
    return Taken(await find_project(root), tmp_path / "store")


async def test_a_file_above_the_limit_is_left_out_and_those_around_it_are_not(root: Path, snapshots: Taken) -> None:
    """SES-222"""
    before = await snapshots.capture()
    (root / "sub/at the limit").write_bytes(bytes(1000))
    (root / "sub/above: *").write_bytes(bytes(1001))
    after = await snapshots.capture()
    assert await snapshots.files(before, after) == ["sub/at the limit"]
    await snapshots.restore(before, ["sub/at the limit", "sub/above: *"])
    assert not (root / "sub/at the limit").exists()


async def test_a_sparse_file_of_any_size_costs_no_time(root: Path, tmp_path: Path) -> None:
    """SES-222: with the limits that are in force where nobody sets any."""
    (root / "image.raw").touch()
    os.truncate(root / "image.raw", 20 * 1024**3)
    snapshots = Snapshots(await find_project(root), tmp_path / "store")
    began = time.monotonic()
    before = await snapshots.capture()
    (root / "a.txt").write_text("changed\n", encoding="utf-8")
    assert await snapshots.files(before, await snapshots.capture()) == ["a.txt"]
    assert time.monotonic() - began < 5, "git reads about 1 GB in a second"


async def test_a_file_that_grows_beyond_the_limit_stays_as_it_is(root: Path, snapshots: Taken) -> None:
    """SES-223: what it became cannot be brought back, so neither is what it was."""
    small = await snapshots.capture()
    (root / "a.txt").write_bytes(b"x" * 2000)
    large = await snapshots.capture()
    assert await snapshots.files(small, large) == []
    for tree in (small, large):
        await snapshots.restore(tree, await snapshots.files(small, large))
    await snapshots.restore(large, ["a.txt"])
    assert (root / "a.txt").stat().st_size == 2000


async def test_a_file_that_shrinks_below_the_limit_is_not_removed(root: Path, snapshots: Taken) -> None:
    """SES-223: the tree before does not have it because it was left out, not because it was not there."""
    (root / "log").write_bytes(b"x" * 2000)
    large = await snapshots.capture()
    (root / "log").write_bytes(b"x" * 10)
    small = await snapshots.capture()
    assert await snapshots.files(large, small) == []
    await snapshots.restore(large, ["log"])
    assert (root / "log").stat().st_size == 10
    (root / "log").write_bytes(b"y" * 10)
    assert await snapshots.files(small, await snapshots.capture()) == ["log"], "from now on it is a file like others"


async def test_files_left_out_of_a_snapshot_are_known_to_other_processes(
    root: Path, snapshots: Taken, tmp_path: Path
) -> None:
    """SES-223"""
    (root / "log").write_bytes(b"x" * 2000)
    tree = await snapshots.capture()
    snapshots.close()
    (root / "log").write_bytes(b"x" * 10)
    other = Taken(await find_project(root), tmp_path / "store")
    assert await other.files(tree, await other.capture()) == []
    await other.restore(tree, ["log"])
    assert (root / "log").exists()


async def test_without_changes_git_is_asked_for_them_and_adds_nothing(root: Path, snapshots: Taken) -> None:
    first = await snapshots.capture()
    snapshots.ran.clear()
    assert await snapshots.capture() == first
    assert snapshots.ran == ["diff-files", "ls-files"]
    for change in (
        lambda: (root / "a.txt").write_text("other\n", encoding="utf-8"),
        lambda: (root / "a.txt").chmod(0o755),
        lambda: (root / "a.txt").unlink(),
        lambda: (root / "a.txt").symlink_to("elsewhere"),
        lambda: (root / "new.txt").write_text("new\n", encoding="utf-8"),
        lambda: os.rename(root / "new.txt", root / "newer.txt"),
    ):
        change()
        tree = await snapshots.capture()
        assert tree != first
        first = tree


async def test_a_project_with_too_many_files_has_no_snapshots_and_a_person_is_told(
    root: Path, snapshots: Taken, caplog: pytest.LogCaptureFixture
) -> None:
    """SES-224: once; with other limits it is tried again."""
    already = sum(len(files) for folder, _, files in os.walk(root) if ".git" not in folder)
    for number in range(20 - already):
        (root / f"{number}.txt").touch()
    await snapshots.capture()
    assert not snapshots.switched_off()
    (root / "one more").touch()
    with pytest.raises(SnapshotError, match=r"it has 21 files, more than 20 \(holdfast\.snapshot\.files\)"):
        await snapshots.capture()
    assert snapshots.switched_off()
    (message,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert message.startswith(f"{root}: this project has no snapshots")
    (problem,) = snapshots.diagnostics()
    assert (problem.path, "holdfast.snapshot.files" in problem.message) == (str(root), True)
    snapshots.limits = SnapshotLimits()
    assert not snapshots.switched_off()
    await snapshots.capture()
    assert snapshots.diagnostics() == ()


async def test_too_many_new_files_are_not_even_added(root: Path, snapshots: Taken) -> None:
    """SES-224"""
    for number in range(25):
        (root / f"{number}.txt").touch()
    with pytest.raises(SnapshotError, match="new or changed"):
        await snapshots.capture()
    assert "add" not in snapshots.ran


def test_the_number_of_files_that_are_left_out_is_bounded(tmp_path: Path) -> None:
    """SES-224"""
    names = [f"{number}" for number in range(MOST_EXCLUDED + 1)]
    for name in names:
        (tmp_path / name).write_bytes(b"xx")
    limits = SnapshotLimits(file_bytes=1)
    assert len(files_too_large(tmp_path, names[1:], limits)) == MOST_EXCLUDED
    with pytest.raises(TooMuch, match="file_bytes"):
        files_too_large(tmp_path, names, limits)


async def test_a_project_that_is_too_slow_has_no_snapshots(
    root: Path, snapshots: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-224: after the second capture in a row that was given up."""
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    run = Git.run
    started = asyncio.Event()

    async def stuck(git: Git, *arguments: str, **options: Any) -> bytes:
        if "ls-files" in arguments:
            started.set()
            await asyncio.Event().wait()
        return await run(git, *arguments, **options)

    async def give_up() -> None:
        started.clear()
        capture = asyncio.create_task(snapshots.capture())
        await started.wait()
        capture.cancel()
        await asyncio.wait({capture})

    with monkeypatch.context() as patch:
        patch.setattr(Git, "run", stuck)
        await give_up()
        assert not snapshots.switched_off()
    await snapshots.capture()
    monkeypatch.setattr(Git, "run", stuck)
    await give_up()
    assert not snapshots.switched_off(), "one in between was quick enough"
    await give_up()
    assert snapshots.switched_off()
