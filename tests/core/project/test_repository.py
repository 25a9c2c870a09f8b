"""What is read of a repository without git, from real repositories and from files that lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.core.runtime.test_moves import git, repository

from holdfast.core.permission.approval_key import NOBODY, ApprovalKey, approval_key
from holdfast.core.project.project import Project, find_project
from holdfast.core.project.repository import find_root, read_small, repository_at, shares_store

pytestmark = pytest.mark.anyio


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return repository(tmp_path / "one")


def head_of(folder: Path) -> str:
    return git(folder, "rev-parse", "HEAD").strip()


async def test_the_commit_that_is_checked_out(here: Path, tmp_path: Path) -> None:
    """CAT-171: on a branch, packed, detached, in a working tree of its own; none before the first."""
    assert repository_at(here).head() == head_of(here)
    git(here, "branch", "other")
    git(here, "pack-refs", "--all")
    assert not (here / ".git" / "refs" / "heads" / "main").exists()
    assert repository_at(here).head() == head_of(here)
    git(here, "commit", "--quiet", "--allow-empty", "-m", "second")
    assert repository_at(here).head() == head_of(here)
    git(here, "worktree", "add", "--quiet", "-b", "deep/branch", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "--quiet", "--allow-empty", "-m", "there")
    assert repository_at(tmp_path / "tree").head() == head_of(tmp_path / "tree") != head_of(here)
    git(here, "checkout", "--quiet", "--detach", "HEAD~1")
    assert repository_at(here).head() == head_of(here)
    git(tmp_path, "init", "--quiet", "empty")
    assert repository_at(tmp_path / "empty").head() is None


@pytest.mark.parametrize(
    "head",
    [
        "",
        "ref: ",
        "ref: HEAD",
        "ref: refs/heads/../../config",
        "ref: ../../etc/passwd",
        "ref: /etc/passwd",
        "ref: refs/heads/loop",
        "g" * 40,
        "a" * 39,
        "a" * 41,
        "--upload-pack=x",
        "ref: refs/heads/a\0b",
    ],
)
async def test_a_head_that_lies_is_none(here: Path, head: str) -> None:
    """CAT-171: nothing outside the git directory is read, and nothing but a commit's id reaches git."""
    (here / ".git" / "refs" / "heads" / "loop").write_text("ref: refs/heads/loop\n", encoding="utf-8")
    (here / ".git" / "HEAD").write_text(head, encoding="utf-8")
    assert repository_at(here).head() is None
    assert (await find_project(here)).id == "global"


@pytest.mark.parametrize("name", [".git", "config", "HEAD", "packed-refs", "opencode", "shallow", "info/exclude"])
async def test_a_pipe_or_a_device_in_place_of_a_file_holds_nothing_up(here: Path, tmp_path: Path, name: str) -> None:
    """CAT-171: files that never end, or that nobody writes."""
    path = here / ".git" / name if name != ".git" else tmp_path / "odd" / ".git"
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert (await find_project(path.parent)).directory in (here, tmp_path / "odd")
    path.unlink()
    path.symlink_to("/dev/zero")
    assert (await find_project(path.parent)).directory in (here, tmp_path / "odd")


async def test_files_are_read_up_to_a_limit(tmp_path: Path) -> None:
    """CAT-171: whole, or not at all."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert (read_small(path, 10), read_small(path, 9), read_small(tmp_path), read_small(tmp_path / "none")) == (
        b"x" * 10,
        b"",
        b"",
        b"",
    )


async def test_a_shallow_clone_is_known_by_the_commit_it_begins_with(here: Path, tmp_path: Path) -> None:
    """CAT-003: git says the same of it."""
    git(here, "commit", "--quiet", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{here}", "shallow")
    git(tmp_path / "shallow", "remote", "remove", "origin")
    assert (await find_project(tmp_path / "shallow")).id == head_of(here)


async def test_a_repository_with_long_ids_has_one_too(tmp_path: Path) -> None:
    """CAT-003: SHA-256."""
    (tmp_path / "long").mkdir()
    git(tmp_path / "long", "init", "--quiet", "--object-format=sha256")
    git(tmp_path / "long", "commit", "--quiet", "--allow-empty", "-m", "first")
    id = (await find_project(tmp_path / "long")).id
    assert (len(id), id) == (64, head_of(tmp_path / "long"))


async def test_only_a_store_that_knows_the_working_tree_is_shared(here: Path, tmp_path: Path) -> None:
    """TOL-393: a file or a link that points at it is not enough."""
    git(here, "worktree", "add", "--quiet", str(tmp_path / "tree"))
    for name in ("pointing", "posing", "linked"):
        (tmp_path / name).mkdir()
    (tmp_path / "pointing" / ".git").write_text(f"gitdir: {here}/.git\n", encoding="utf-8")
    (tmp_path / "posing" / ".git").write_text((tmp_path / "tree" / ".git").read_text(), encoding="utf-8")
    (tmp_path / "linked" / ".git").symlink_to(here / ".git")
    shared = {path.name: shares_store(repository_at(path)) for path in tmp_path.iterdir()}
    assert shared == {"one": True, "tree": True, "pointing": False, "posing": False, "linked": False}
    store = str(here / ".git")
    keys = {path.name: approval_key(await find_project(path)).root for path in tmp_path.iterdir()}
    assert keys == {"one": store, "tree": store} | {
        name: str(tmp_path / name) for name in ("pointing", "posing", "linked")
    }


async def test_a_directory_that_is_gone_has_no_approvals(tmp_path: Path) -> None:
    """TOL-393."""
    gone = tmp_path / "gone"
    assert approval_key(Project("global", gone)) == ApprovalKey(str(gone), NOBODY)
    assert approval_key(Project("global", tmp_path)) == ApprovalKey(str(tmp_path), os.getuid())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("part", ["", ".git"])
async def test_a_repository_of_another_user_is_not_used(
    here: Path, tmp_path: Path, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    """CAT-174: as if there were none, with a line that says why and what to do; unless the user trusts it, or is the
    one who called sudo."""
    os.chown(here / part, 12_345, -1)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    found = await find_project(here / "sub", environment=environment)
    assert found == Project("global", here / "sub", None)
    assert f"{here / part} is owned by user 12345".replace("/ ", " ") in caplog.text
    assert f"safe.directory {here}" in caplog.text
    assert (await find_project(here, environment={**environment, "SUDO_UID": "12345"})).directory == here
    (tmp_path / ".gitconfig").write_text(f"[safe]\n\tdirectory = {here}\n", encoding="utf-8")
    assert (await find_project(here / "sub", environment=environment)).directory == here


def test_the_root_is_the_nearest_folder_with_a_marker(here: Path, tmp_path: Path) -> None:
    """CAT-002."""
    assert find_root(here / "sub") == here
    assert find_root(tmp_path) is None
