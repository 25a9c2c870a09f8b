"""Trees of a project's files, whatever else lies among them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.process.git import GitFailed
from holdfast.core.project.project import Project
from holdfast.core.snapshot import snapshot as module
from holdfast.core.snapshot.errors import SnapshotError
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


async def tree_of(snapshots: Snapshots, tree: str) -> list[str]:
    listed = await snapshots._git("files", "ls-tree", "-r", "--name-only", tree)
    return listed.decode().splitlines()


def commit(folder: Path) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=e@x")
    subprocess.run(("git", *identity, "commit", "--quiet", "--allow-empty", "-m", "x"), cwd=folder, check=True)


async def test_repositories_below_are_no_part_of_a_tree(worktree: Path, snapshots: Snapshots) -> None:
    """TOL-392: neither their files nor a mark of them, with or without a commit; their files are never restored, and
    what lies beside them is."""
    for name in ("lib", "deep/er/lib"):
        commit(initialize(worktree / name))
        (worktree / name / "theirs").write_text("one\n", encoding="utf-8")
    initialize(worktree / "fresh")
    (worktree / "a").write_text("one\n", encoding="utf-8")
    (worktree / "deep/beside").write_text("one\n", encoding="utf-8")
    before = await snapshots.capture()
    assert await tree_of(snapshots, before) == ["a", "deep/beside"]
    for name in ("lib/theirs", "deep/er/lib/theirs", "deep/beside"):
        (worktree / name).write_text("two\n", encoding="utf-8")
    commit(worktree / "lib")
    after = await snapshots.capture()
    assert await snapshots.files(before, after) == ["deep/beside"]
    await snapshots.restore(before, ["deep/beside", "lib"])
    assert (worktree / "deep/beside").read_text(encoding="utf-8") == "one\n"
    assert (worktree / "lib/theirs").read_text(encoding="utf-8") == "two\n"
    assert await snapshots.capture() == before


async def test_a_tree_of_an_earlier_version_is_restored_without_its_repositories(
    worktree: Path, snapshots: Snapshots
) -> None:
    """TOL-392: such trees have marks of repositories, which must not come back into the index."""
    commit(initialize(worktree / "lib"))
    (worktree / "a").write_text("one\n", encoding="utf-8")
    tree = await snapshots.capture()
    entry = f"160000,{'1' * 40},lib"
    await snapshots._git("capture", "update-index", "--add", "--cacheinfo", entry)
    old = (await snapshots._git("capture", "write-tree")).decode().strip()
    await snapshots._git("capture", "update-index", "--force-remove", "lib")
    (worktree / "a").write_text("two\n", encoding="utf-8")
    await snapshots.restore(old, ["a", "lib"])
    assert (worktree / "a").read_text(encoding="utf-8") == "one\n"
    assert await snapshots.capture() == tree


@pytest.mark.parametrize(
    "attribute", ["text=auto", "text eol=crlf", "ident", "working-tree-encoding=UTF-16", "filter=lfs"]
)
async def test_restored_files_are_byte_for_byte_the_same(worktree: Path, snapshots: Snapshots, attribute: str) -> None:
    """TOL-392, SES-168: whatever the project's attributes would have git do to files."""
    content = {"a.txt": b"one\r\ntwo\n$Id$\r\n", "b.bin": bytes(range(256)), "c.txt": "ü\n".encode("utf-16")}
    (worktree / ".gitattributes").write_text(f"* {attribute}\n", encoding="utf-8")
    for name, data in content.items():
        (worktree / name).write_bytes(data)
    before = await snapshots.capture()
    for name in content:
        (worktree / name).write_bytes(b"other\n")
    await snapshots.capture()
    await snapshots.restore(before, list(content))
    assert {name: (worktree / name).read_bytes() for name in content} == content


async def test_files_that_change_their_kind(worktree: Path, snapshots: Snapshots, tmp_path: Path) -> None:
    """SES-112: a folder becomes a link or a file, a file becomes a folder, a link or a pipe; nothing outside counts."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("outside\n", encoding="utf-8")
    for name in ("folder/x", "other/x", "file", "piped", "linked"):
        (worktree / name).parent.mkdir(exist_ok=True)
        (worktree / name).write_text("one\n", encoding="utf-8")
    before = await snapshots.capture()
    for name in ("folder/x", "other/x", "file", "piped", "linked"):
        (worktree / name).unlink()
    (worktree / "folder").rmdir()
    (worktree / "folder").symlink_to(tmp_path / "outside")
    (worktree / "other").rmdir()
    (worktree / "other").write_text("a file\n", encoding="utf-8")
    (worktree / "file").mkdir()
    (worktree / "file" / "x").write_text("below\n", encoding="utf-8")
    os.mkfifo(worktree / "piped")
    (worktree / "linked").symlink_to("/etc/passwd")
    after = await snapshots.capture()
    assert await tree_of(snapshots, after) == ["file/x", "folder", "linked", "other"]
    assert sorted(await snapshots.files(before, after)) == [
        *("file", "file/x", "folder", "folder/x", "linked", "other", "other/x", "piped")
    ]
    (worktree / "piped").unlink()
    await snapshots.restore(before, ["file/x", "folder", "linked", "other", "file", "folder/x", "other/x", "piped"])
    assert await snapshots.capture() == before
    assert (tmp_path / "outside" / "x").read_text(encoding="utf-8") == "outside\n"


async def test_nothing_changed_means_the_same_tree_without_writing_one(
    worktree: Path, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-112, TOL-506: two short calls of git; a file that was only touched is read once, and compared."""
    (worktree / "a").write_text("one\n", encoding="utf-8")
    tree = await snapshots.capture()
    ran: list[str] = []
    run = snapshots._runner.run

    async def noted(*arguments: str, **options: Any) -> bytes:
        ran.append(arguments[0])
        return await run(*arguments, **options)

    monkeypatch.setattr(snapshots._runner, "run", noted)
    assert await snapshots.capture() == tree
    assert sorted(ran) == ["diff-files", "ls-files"]
    os.utime(worktree / "a", (1_600_000_000, 1_600_000_000))
    ran.clear()
    assert [await snapshots.capture(), await snapshots.capture()] == [tree, tree]
    assert sorted(ran) == ["diff-files", "diff-files", *["ls-files"] * 3, "update-index", "write-tree"]


async def test_a_file_that_fails_is_left_out_alone(
    worktree: Path, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-112: as many as may be written at that moment; more are an error, and nothing is lost without a word."""
    for number in range(module.UNUSABLE_FILES + 1):
        (worktree / f"bad {number}").write_text("x", encoding="utf-8")
    (worktree / "good").write_text("x", encoding="utf-8")
    run = snapshots._runner.run
    failing = {f"bad {number}" for number in range(module.UNUSABLE_FILES)}

    async def shrinking(*arguments: str, **options: Any) -> bytes:
        given = options.get("stdin", b"").decode().split("\0")
        if "--add" in arguments and (failed := next((name for name in given if name in failing), None)):
            raise GitFailed(f"error: {failed}: short read\nfatal: Unable to process path {failed}")
        return await run(*arguments, **options)

    monkeypatch.setattr(snapshots._runner, "run", shrinking)
    left = f"bad {module.UNUSABLE_FILES}"
    assert await tree_of(snapshots, await snapshots.capture()) == [left, "good"]
    failing.add("bad 8")
    (worktree / left).write_text("y", encoding="utf-8")
    with pytest.raises(SnapshotError, match="short read"):
        await snapshots.capture()


async def test_the_users_own_ignore_file_counts(worktree: Path, tmp_path: Path) -> None:
    """SES-112, TOL-392: although nothing else of the user's configuration does."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        '[core]\n\texcludesFile = ~/ignored\n[filter "x"]\n\tclean = touch %s; cat\n' % (tmp_path / "ran"),
        encoding="utf-8",
    )
    (home / "ignored").write_text("*.swp\n", encoding="utf-8")
    (worktree / ".gitattributes").write_text("* filter=x\n", encoding="utf-8")
    for name in ("a", "a.swp"):
        (worktree / name).write_text("x", encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    project = Project(id="p", directory=worktree, store=worktree / ".git")
    snapshots = Snapshots(project, tmp_path / "snapshot", environment)
    assert await tree_of(snapshots, await snapshots.capture()) == [".gitattributes", "a"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", [".bare", "a [git] *dir? "])
async def test_the_git_directory_is_no_part_of_a_tree_wherever_it_is(worktree: Path, tmp_path: Path, name: str) -> None:
    """SES-442: a `.git` file may name any folder among the files; a revert must not change what git has stored."""
    (worktree / ".git").rename(worktree / name)
    (worktree / ".git").write_text(f"gitdir: {name}\n", encoding="utf-8")
    (worktree / "a").write_text("one\n", encoding="utf-8")
    snapshots = Snapshots(Project(id="p", directory=worktree, store=worktree / name), tmp_path / "snapshot")
    before = await snapshots.capture()
    (worktree / name / "HEAD").write_text("ref: refs/heads/other\n", encoding="utf-8")
    (worktree / "a").write_text("two\n", encoding="utf-8")
    assert await snapshots.files(before, await snapshots.capture()) == ["a"]
