"""A directory that is held open, while what is below it is exchanged."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.core.filesystem.open_tree import OpenTree
from holdfast.core.filesystem.own_folders import OwnFolders


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "f").write_text("outside", encoding="utf-8")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "d").mkdir(parents=True)
    (root / "d/f").write_text("inside", encoding="utf-8")
    return root


def read(tree: OpenTree, path: str) -> str | None:
    if (handle := tree.open(path)) is None:
        return None
    with os.fdopen(handle) as file:
        return file.read()


def test_no_link_is_followed(root: Path, outside: Path) -> None:
    """TOL-500: neither as a folder nor as the file; a directory that was entered stays the same."""
    (root / "link").symlink_to(outside)
    (root / "d/linked").symlink_to(outside / "f")
    os.mkfifo(root / "pipe")
    with OpenTree(root) as tree:
        assert (read(tree, "d/f"), read(tree, "link/f"), read(tree, "d/linked")) == ("inside", None, None)
        assert (read(tree, "pipe"), read(tree, "d")) == (None, None)
        tree.parent("d/f")
        os.rename(root / "d", root / "away")
        (root / "d").symlink_to(outside)
        assert read(tree, "d/f") == "inside"
    with pytest.raises(NotADirectoryError):
        OpenTree(root / "d")


@pytest.mark.parametrize("path", ["..", "../x", "a/../b", "/etc/passwd", "", "a//b", "."])
def test_a_path_that_could_lead_out_is_refused(root: Path, path: str) -> None:
    """TOL-501"""
    with OpenTree(root) as tree, pytest.raises(ValueError, match="not a path below"):
        tree.parent(path, make=True)


def test_what_is_in_the_place_of_a_folder_gives_way(root: Path, outside: Path) -> None:
    """TOL-501: a link and a file; what the link led to stays."""
    (root / "link").symlink_to(outside)
    with OpenTree(root) as tree:
        for path in ("link/sub/f", "d/f/g"):
            directory, name = tree.parent(path, make=True)
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=directory))
    assert (root / "link/sub/f").is_file()
    assert not (root / "link").is_symlink()
    assert (root / "d/f/g").is_file()
    assert os.listdir(outside) == ["f"]


def table(home: Path) -> OwnFolders:
    for name in ("data/copies/ses_1", "state", "config/skills"):
        (home / name).mkdir(parents=True, exist_ok=True)
    return OwnFolders.of(
        closed=(home / "data", home / "state"), outside=(home / "config",), writable=(home / "data/copies",)
    ).with_skills(lambda: [home / "config/skills", home / "state/skills"])


def test_the_innermost_own_folder_counts(tmp_path: Path) -> None:
    """TOL-502, TOL-503: skills are open in the configuration, and nowhere else."""
    home = tmp_path.resolve()
    own = table(home)
    expected = {
        "project/f": "open",
        "data/holdfast.db": "closed",
        "data/copies/ses_1/f": "open",
        "state/new": "closed",
        "state/skills/a": "closed",
        "config/opencode.json": "outside",
        "config/skills/a/SKILL.md": "open",
    }
    assert {path: own.use(str(home / path)) for path in expected} == expected
    assert own.use(str(home / "config/skills/a"), "write") == "outside"
    inside = own.around(str(home / "data/project"))
    assert (inside.use(str(home / "data/project/f")), inside.use(str(home / "data/f"))) == ("open", "closed")
    assert own.around(str(home / "data")).use(str(home / "data/f")) == "closed"


def test_a_walk_enters_no_own_folder(tmp_path: Path) -> None:
    """TOL-502: and enters what is open in one."""
    home = tmp_path.resolve()
    own = table(home)
    for name in ("data/f", "data/copies/ses_1/f", "config/f", "config/skills/f"):
        (home / name).write_text(name, encoding="utf-8")
    with OpenTree(home, own.identities()) as tree:
        assert (read(tree, "data/f"), read(tree, "config/f")) == (None, None)
        assert read(tree, "data/copies/ses_1/f") == "data/copies/ses_1/f"
        assert read(tree, "config/skills/f") == "config/skills/f"


def test_a_second_name_of_an_own_folder_is_recognised(tmp_path: Path) -> None:
    """TOL-502: a bind mount, as containers have them."""
    home = tmp_path.resolve()
    own = table(home)
    (home / "alias").mkdir()
    mounted = subprocess.run(("mount", "--bind", str(home / "state"), str(home / "alias")), capture_output=True)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        assert own.use(str(home / "alias/server-password")) == "closed"
    finally:
        subprocess.run(("umount", str(home / "alias")), check=True)
