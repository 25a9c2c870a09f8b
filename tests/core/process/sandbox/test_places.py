"""Which paths a sandbox protects and hides."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.core.process.sandbox.confinement import Confinement, SandboxSettings, SandboxUnavailable
from holdfast.core.process.sandbox.mounts import mounts
from holdfast.core.process.sandbox.places import repository, secrets
from holdfast.core.process.sandbox.sandbox import Surroundings, confinement


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(("git", *identity, *arguments), cwd=folder, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "project"
    folder.mkdir()
    return folder


def workspace(root: Path, repository: Path | None = None, **settings: object) -> Confinement:
    (root.parent / "home").mkdir(exist_ok=True)
    around = Surroundings(root, repository, root.parent / "home", (), ())
    return confinement("workspace", "off", around, SandboxSettings("workspace", **settings), root.parent / "t")  # type: ignore[arg-type]


def test_secrets_that_exist_are_hidden_under_their_real_names(tmp_path: Path) -> None:
    """TOL-371: also when they are links."""
    home = Path(os.path.realpath(tmp_path))
    (home / "keys").mkdir()
    (home / ".ssh").symlink_to("keys")
    (home / ".netrc").write_text("x", encoding="utf-8")
    found = [path for path in secrets(home) if path.is_relative_to(home)]
    assert sorted(found) == [home / ".netrc", home / "keys"]


def test_a_commit_from_a_folder_of_the_repository_is_possible(root: Path) -> None:
    """TOL-373: the git directory is writable, what it executes is not, nor is the rest of the repository."""
    git(root, "init", "-q")
    (root / "sub").mkdir()
    found = workspace(root / "sub", root)
    assert found.writable == (root / "sub", root / ".git")
    assert root / ".git" / "hooks" in found.protected
    assert root / ".git" / "config" in found.protected


def test_hooks_in_the_worktree_are_protected(root: Path) -> None:
    """TOL-373: as husky keeps them; a path that leads outside is not ours to protect."""
    git(root, "init", "-q")
    git(root, "config", "core.hooksPath", ".husky/_")
    assert root / ".husky" / "_" in repository(root).protected
    git(root, "config", "core.hooksPath", "/usr/share/hooks")
    assert not any("usr" in path.parts for path in repository(root).protected)


def test_a_worktree_can_commit_and_its_siblings_are_closed(root: Path) -> None:
    """TOL-373: the shared git directory is writable because it points back to this worktree."""
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "x")
    for name in ("one", "two"):
        git(root, "worktree", "add", "-q", f"../{name}")
    found = repository(root.parent / "one")
    assert found.writable == (root / ".git",)
    own = root / ".git" / "worktrees" / "one"
    assert root / ".git" / "worktrees" / "two" in found.protected
    assert own.parent not in found.protected
    assert {own / "commondir", own / "gitdir", root / ".git" / "hooks", root.parent / "one" / ".git"} <= {
        *found.protected
    }


def test_a_forged_git_file_makes_nothing_writable(root: Path) -> None:
    """TOL-373: a repository cannot choose a directory by naming it."""
    victim = root.parent / "victim"
    git(root.parent, "init", "-q", "victim")
    (root / ".git").write_text(f"gitdir: {victim}/.git\n", encoding="utf-8")
    assert repository(root).writable == ()
    (victim / ".git" / "gitdir").write_text(f"{root}/.git\n", encoding="utf-8")
    assert repository(root).writable == ()  # it is not laid out as the directory of a worktree


def test_the_whole_disk_is_no_workspace() -> None:
    """TOL-377."""
    around = Surroundings(Path("/"), None, Path("/root"), (), ())
    with pytest.raises(SandboxUnavailable, match="the project directory is /"):
        confinement("workspace", "off", around, SandboxSettings("workspace"), Path("/tmp/t"))


def test_start_up_files_are_protected_when_the_project_is_the_home_directory(root: Path) -> None:
    """TOL-373."""
    (root / ".bashrc").write_text("", encoding="utf-8")
    around = Surroundings(root, None, root, (), ())
    found = confinement("workspace", "off", around, SandboxSettings("workspace"), root.parent / "t")
    assert root / ".bashrc" in found.protected


def test_further_writable_directories_must_exist_and_never_be_the_whole_disk(root: Path) -> None:
    """TOL-375: that exist, with `~/`, and never the whole disk."""
    (root.parent / "home" / "cache").mkdir(parents=True)
    found = workspace(root, writable=("~/cache", "~/absent", "/"))
    assert found.writable == (root, root.parent / "home" / "cache")


def test_parents_are_mounted_before_what_lies_in_them(root: Path) -> None:
    """TOL-373: and the way to a protected path consists of mount points, which cannot be renamed."""
    git(root, "init", "-q")
    git(root, "config", "core.hooksPath", "a/b/hooks")
    (root / "a" / "b" / "hooks").mkdir(parents=True)
    plan = mounts(workspace(root, root))
    targets = [mount.target for mount in plan]
    assert targets == sorted(targets, key=lambda target: (target.count("/"), target))
    kinds = {mount.target.removeprefix(str(root)): mount.kind for mount in plan if mount.target.startswith(str(root))}
    assert kinds[""] == "write"
    assert (kinds["/a"], kinds["/a/b"], kinds["/a/b/hooks"]) == ("write", "write", "read")
    assert (kinds["/.git"], kinds["/.git/hooks"], kinds["/.git/config"]) == ("write", "read", "read")


def test_a_protected_link_closes_its_directory(root: Path) -> None:
    """TOL-373: a link cannot be a mount point, so nothing can be added or removed beside it."""
    (root / "src").mkdir()
    (root / "file").write_text("", encoding="utf-8")
    (root / ".opencode").symlink_to("src")
    plan = mounts(workspace(root))
    kinds = {mount.target.removeprefix(str(root)): mount.kind for mount in plan if mount.target.startswith(str(root))}
    assert kinds == {"": "read", "/src": "write", "/file": "write"}
