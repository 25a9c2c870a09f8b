"""Finding repositories below writable directories."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.process.git import Git
from holdfast.core.process.sandbox import repositories
from holdfast.core.process.sandbox.confinement import Confinement
from holdfast.core.process.sandbox.git_settings import GitReader
from holdfast.core.process.sandbox.leftovers import Baseline, Leftovers
from holdfast.core.process.sandbox.repositories import RepositorySearch, disable, set_aside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "project"
    folder.mkdir()
    return folder


def git(folder: Path, *arguments: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(("git", *identity, *arguments), cwd=folder, check=True, capture_output=True)


def names(search: RepositorySearch, root: Path) -> set[str]:
    return {str(repository.marker.relative_to(root)) for repository in search.survey((root,)).programs}


def test_every_form_of_a_repository_is_found(root: Path) -> None:
    """TOL-550: a directory, a pointer, a link and a directory that is one itself; not what is in a git directory."""
    git(root / "a" / "b", "init", "-q")
    git(root / "bare", "init", "-q", "--bare")
    for name, make in {"pointer": Path.write_text, "link": None}.items():
        (root / name).mkdir()
        if make is None:
            (root / name / ".git").symlink_to("../a/b/.git")
        else:
            (root / name / ".git").write_text("gitdir: ../a/b/.git\n", encoding="utf-8")
    (root / "broken").mkdir()
    (root / "broken" / ".git").write_text("gitdir: nowhere\n", encoding="utf-8")
    git(root / "a" / "b" / ".git" / "inner", "init", "-q")
    assert names(RepositorySearch(), root) == {"a/b/.git", "bare", "pointer/.git", "link/.git"}


def test_changes_are_noticed_without_listing_everything_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-550: also when a command sets back the times that it can set."""
    monkeypatch.setattr(repositories, "SETTLED_SECONDS", 0.05)
    for number in range(20):
        (root / "a" / str(number)).mkdir(parents=True)
    time.sleep(0.1)
    search, scans = RepositorySearch(), []
    scandir = os.scandir

    def counted(path: str) -> object:
        scans.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    assert names(search, root) == set()
    assert len(scans) == 22
    scans.clear()
    assert names(search, root) == set()
    assert scans == []
    times = (root / "a" / "7").stat()
    git(root / "a" / "7", "init", "-q")
    os.utime(root / "a" / "7", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert names(search, root) == {"a/7/.git"}
    (root / "a" / "7").rename(root / "a" / "8" / "7")
    assert names(search, root) == {"a/8/7/.git"}


def test_a_search_that_ends_early_says_so_and_still_reaches_what_the_index_names(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-550: git enters by itself what the index names, and what the indexes of those name."""
    monkeypatch.setattr(repositories, "MOST_DIRECTORIES", 5)
    git(root, "init", "-q")
    for path in ("z/y/sub/deep/inner", "z/y/sub", "z/y/other"):
        git(root / path, "init", "-q")
        git(root / path, "add", "-A")
        git(root / path, "commit", "-q", "--allow-empty", "-m", "x")
    git(root, "add", "z/y/sub")
    for number in range(10):
        (root / str(number)).mkdir()
    inventory = asyncio.run(Leftovers(root, root, os.environ).take((root, root / ".git")))
    assert "too large to examine" in inventory.problem
    found = {str(repository.worktree.relative_to(root)) for repository in inventory.nested}
    assert found == {"z/y/sub", "z/y/sub/deep/inner"}


def test_disabling_follows_no_link(root: Path) -> None:
    """TOL-552: what a link leads to outside stays as it is."""
    outside = root.parent / "outside"
    git(outside, "init", "-q")
    (root / "link").symlink_to(outside)
    assert set_aside(root / "link" / ".git" / "HEAD", (root,)) is None
    (root / "sub").mkdir()
    (root / "sub" / ".git").write_text(f"gitdir: {outside}/.git\n", encoding="utf-8")
    (repository,) = RepositorySearch().survey((root,)).programs
    assert disable(repository, (root,)) is not None
    assert not (root / "sub" / ".git").exists()
    assert (outside / ".git" / "HEAD").exists()
    assert set_aside(outside / ".git" / "HEAD", (root,)) is None


def test_a_worktree_elsewhere_counts_as_a_program(root: Path) -> None:
    """TOL-551: git would write files there."""
    git(root / "sub", "init", "-q")
    git(root / "sub", "config", "core.worktree", "../../sub")
    search = RepositorySearch()
    before = search.survey((root,))
    git(root / "sub", "config", "core.worktree", "../../../..")
    ((_, programs),) = search.survey((root,)).added(before.programs)
    assert programs == ("core.worktree",)


def test_a_command_cannot_restore_what_was_disabled_after_another_one(root: Path) -> None:
    """TOL-552: what a running command made is not the user's for one that starts meanwhile."""
    leftovers = Leftovers(root, root, os.environ)
    git(root, "init", "-q")
    absent = root / ".git" / "commondir"
    confined = Confinement("workspace", "off", root, writable=(root, root / ".git"), absent=(absent,))

    async def begin() -> Baseline:
        return leftovers.begin(confined, await leftovers.take(confined.writable))

    async def both() -> tuple[tuple[str, ...], ...]:
        first = await begin()
        git(root / "sub", "init", "-q")
        git(root / "sub", "config", "core.fsmonitor", "x")
        absent.write_text("elsewhere", encoding="utf-8")
        second = await begin()
        after_first = await leftovers.settle(first)
        next((root / "sub" / ".git").glob("HEAD.disabled-*")).rename(root / "sub" / ".git" / "HEAD")
        absent.write_text("elsewhere", encoding="utf-8")
        after_second = await leftovers.settle(second)
        assert not absent.exists()
        third = await begin()
        return after_first, after_second, await leftovers.settle(third)

    first, second, third = asyncio.run(both())
    assert [len(lines) for lines in (first, second, third)] == [2, 2, 0]
    assert "core.fsmonitor" in second[1]


def test_hooks_are_found_among_any_number_of_other_files(root: Path) -> None:
    """TOL-551."""
    search, hooks = RepositorySearch(), root / "sub" / ".git" / "hooks"
    git(root / "sub", "init", "-q")
    before = search.survey((root,))
    for number in range(500):
        (hooks / f"a{number}").touch(mode=0o755)
    assert list(search.survey((root,)).added(before.programs)) == []
    (hooks / "pre-push").touch(mode=0o755)
    ((_, programs),) = search.survey((root,)).added(before.programs)
    assert programs == ("the hook pre-push",)


EVIL = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = x\n"
POINTERS = {
    "with a blank at its end": ("evil ", b"gitdir: ../evil \n"),
    "with a NUL character": ("evil", b"gitdir: ../evil\0.git\n"),
    "that is longer than a path": ("evil", b"gitdir: " + b"./" * 3000 + b"../evil\n"),
    "that is not text": (os.fsdecode(b"ev\xffil"), b"gitdir: ../ev\xffil\n"),
}


@pytest.mark.parametrize("name", POINTERS)
def test_a_pointer_is_followed_as_git_follows_it(root: Path, name: str) -> None:
    """TOL-550: whatever it consists of."""
    folder, content = POINTERS[name]
    git(root / folder, "init", "-q", "--bare")
    (root / folder / "config").write_text(EVIL, encoding="utf-8")
    (root / "sub").mkdir()
    (root / "sub" / ".git").write_bytes(content)
    added = dict(RepositorySearch().survey((root,)).added({}))
    assert {names for each, names in added.items() if each.marker == root / "sub" / ".git"} == {("core.fsmonitor",)}


def test_settings_of_a_common_directory_count(root: Path) -> None:
    """TOL-551: as git reads them in a worktree that is linked to it; also if that cannot be found out."""
    git(root / "sub", "init", "-q")
    git(root / "evil", "init", "-q", "--bare")
    before = RepositorySearch().survey((root,)).programs
    (root / "evil" / "config").write_text(EVIL, encoding="utf-8")
    (root / "sub" / ".git" / "commondir").write_text("../../evil\n", encoding="utf-8")
    added = dict(RepositorySearch().survey((root,)).added(before))
    assert {str(each.marker.relative_to(root)) for each in added} == {"sub/.git", "evil"}
    (root / "sub" / ".git" / "commondir").write_bytes(b"./" * 600_000 + b"../../evil\n")
    added = dict(RepositorySearch().survey((root,)).added(before))
    assert {names for each, names in added.items() if each.marker.name == ".git"} == {("commondir",)}


def test_an_index_is_read_again_when_it_has_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-550: and only then; a large one takes long."""
    monkeypatch.setattr(repositories, "SETTLED_SECONDS", 0.05)
    git(root, "init", "-q")
    for name in ("one", "two"):
        git(root / name, "init", "-q")
        git(root / name, "commit", "-q", "--allow-empty", "-m", "x")
    git(root, "add", "one")
    time.sleep(0.1)
    reader = GitReader(root, root, os.environ)
    listed: list[Path] = []
    run = Git.run

    async def counted(self: Git, *arguments: str, **options: Any) -> bytes:
        listed.append(options["work_tree"])
        return await run(self, *arguments, **options)

    monkeypatch.setattr(Git, "run", counted)
    assert asyncio.run(reader.gitlinks()) == (root / "one",)
    assert root in listed
    listed.clear()
    assert asyncio.run(reader.gitlinks()) == (root / "one",)
    assert root not in listed
    git(root, "add", "two")
    assert asyncio.run(reader.gitlinks()) == (root / "one", root / "two")
