"""Which paths a sandbox protects and hides."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.core.process.sandbox.confinement import Confinement, SandboxSettings, SandboxUnavailable
from holdfast.core.process.sandbox.leftovers import Inventory
from holdfast.core.process.sandbox.mounts import mounts
from holdfast.core.process.sandbox.places import ProtectedName, git_paths, secrets
from holdfast.core.process.sandbox.repositories import Survey
from holdfast.core.process.sandbox.sandbox import SandboxPaths, confinement


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(("git", *identity, *arguments), cwd=folder, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "project"
    folder.mkdir()
    return folder


def workspace(root: Path, git_paths: Path | None = None, **settings: object) -> Confinement:
    (root.parent / "home").mkdir(exist_ok=True)
    around = SandboxPaths(root, git_paths, root.parent / "home", (), ())
    return confinement("workspace", "off", around, SandboxSettings("workspace", **settings), root.parent / "t")  # type: ignore[arg-type]


def test_secrets_that_exist_are_hidden_under_their_real_names(tmp_path: Path) -> None:
    """TOL-371: also when they are links."""
    home = Path(os.path.realpath(tmp_path))
    (home / "keys").mkdir()
    (home / ".ssh").symlink_to("keys")
    (home / ".netrc").write_text("x", encoding="utf-8")
    assert sorted(own_secrets(home, {})) == [home / ".netrc", home / "keys"]


def own_secrets(home: Path, environment: dict[str, str]) -> list[Path]:
    return [path for path in secrets(home, environment) if path.is_relative_to(home)]


def test_secrets_that_variables_move_are_hidden_in_both_places(tmp_path: Path) -> None:
    """TOL-553: below a moved directory, a moved file, and several of them. A device is no secret."""
    home = Path(os.path.realpath(tmp_path))
    places = ("config/gh", "data/keyrings", "tools/cargo", ".config/gh", ".config/rclone")
    files = ("tools/cargo/credentials.toml", "kube/one", "kube/two", "aws", ".s3cfg", "config/git/credentials")
    for place in places:
        (home / place).mkdir(parents=True)
    for file in files:
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text("secret", encoding="utf-8")
    environment = {
        "XDG_CONFIG_HOME": f"{home}/config",
        "XDG_DATA_HOME": f"{home}/data",
        "CARGO_HOME": f"{home}/tools/cargo",
        "KUBECONFIG": f"{home}/kube/one:relative:{home}/kube/two",
        "AWS_SHARED_CREDENTIALS_FILE": f"{home}/aws",
        "HISTFILE": "/dev/null",
    }
    hidden = {str(path.relative_to(home)) for path in own_secrets(home, environment)}
    assert hidden == {*places, *files} - {"tools/cargo"}
    assert Path("/dev/null") not in secrets(home, environment)


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
    assert ProtectedName(root / ".husky" / "_", directory=True) in git_paths(root, [".husky/_"]).protected
    assert not any("usr" in name.path.parts for name in git_paths(root, ["/usr/share/hooks"]).protected)


def test_a_worktree_can_commit_and_its_siblings_are_closed(root: Path) -> None:
    """TOL-373: the shared git directory is writable because it points back to this worktree."""
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "x")
    for name in ("one", "two"):
        git(root, "worktree", "add", "-q", f"../{name}")
    found = git_paths(root.parent / "one")
    assert found.writable == (root / ".git",)
    own = root / ".git" / "worktrees" / "one"
    protected = {name.path for name in found.protected}
    assert root / ".git" / "worktrees" / "two" in protected
    assert own.parent not in protected
    assert {own / "commondir", own / "gitdir", root / ".git" / "hooks", root.parent / "one" / ".git"} <= protected


def test_a_forged_git_file_makes_nothing_writable(root: Path) -> None:
    """TOL-373: a repository cannot choose a directory by naming it."""
    victim = root.parent / "victim"
    git(root.parent, "init", "-q", "victim")
    (root / ".git").write_text(f"gitdir: {victim}/.git\n", encoding="utf-8")
    assert git_paths(root).writable == ()
    (victim / ".git" / "gitdir").write_text(f"{root}/.git\n", encoding="utf-8")
    assert git_paths(root).writable == ()  # it is not laid out as the directory of a worktree


def test_the_whole_disk_is_no_workspace() -> None:
    """TOL-377."""
    around = SandboxPaths(Path("/"), None, Path("/root"), (), ())
    with pytest.raises(SandboxUnavailable, match="the project directory is /"):
        confinement("workspace", "off", around, SandboxSettings("workspace"), Path("/tmp/t"))


def test_start_up_files_are_protected_when_the_project_is_the_home_directory(root: Path) -> None:
    """TOL-373."""
    (root / ".bashrc").write_text("", encoding="utf-8")
    around = SandboxPaths(root, None, root, (), ())
    found = confinement("workspace", "off", around, SandboxSettings("workspace"), root.parent / "t")
    assert root / ".bashrc" in found.protected
    assert root / ".zshrc" in found.absent
    assert {root / ".ssh", root / ".config"} <= {*found.protected}
    assert not any(path.is_relative_to(root / ".config" / "fish") for path in found.protected)


def test_further_writable_directories_must_exist_and_never_be_the_whole_disk(root: Path) -> None:
    """TOL-375: that exist, with `~/`, and never the whole disk."""
    (root.parent / "home" / "cache").mkdir(parents=True)
    found = workspace(root, writable=("~/cache", "~/absent", "/"))
    assert found.writable == (root, root.parent / "home" / "cache")


def test_parents_are_mounted_before_what_lies_in_them(root: Path) -> None:
    """TOL-373: and the way to a protected path consists of mount points, which cannot be renamed."""
    git(root, "init", "-q")
    (root / "a" / "b" / "hooks").mkdir(parents=True)
    inventory = Inventory(Survey({}, True), hooks=("a/b/hooks",), included=(), nested=(), problem="")
    around = SandboxPaths(root, root, root.parent / "home", (), ())
    plan = mounts(confinement("workspace", "off", around, SandboxSettings("workspace"), root.parent / "t", inventory))
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
