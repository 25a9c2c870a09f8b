"""Every way to have git execute something, in every place, with everything that Holdfast does with git."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Machine
from tests.outside.hostile import EDITING, VECTORS, Api, Trap, Vector, attempt, git, honest, running, spring, work

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]

HOSTILE_ITSELF = ("root", "below", "linked", "behind a link")
AMONG_FILES = ("nested", "deep", "copied in")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    machine = Machine(tmp_path)
    machine.script(*EDITING)
    machine.environment["PATH"] = f".::{machine.environment['PATH']}"
    with running(machine) as api:
        yield api


def test_no_hostile_repository_executes_anything(api: Api, tmp_path: Path) -> None:
    """CAT-171, TOL-390, TOL-392: ways x places, each with opening, two prompts with snapshots, a revert, a copy, a move
    and the removal of the copy."""
    marks, original = tmp_path / "marks", honest(tmp_path / "original")
    cases = 0
    for vector in VECTORS:
        for place in (*HOSTILE_ITSELF, *AMONG_FILES):
            folder = tmp_path / f"{vector.name} {place}"
            project = build(original, folder, vector, place, marks)
            if place in HOSTILE_ITSELF:
                attempt(api, project, folder / "copies")
            else:
                carried = work(api, project, folder / "copies")
                # Files that were committed are carried unless a filter is named for them.
                assert carried or place == "copied in", f"{vector.name}, {place}"
            assert not marks.exists(), f"{vector.name}, {place}: {marks.read_text()}"
            cases += 1
    assert cases >= 200


def build(original: Path, folder: Path, vector: Vector, place: str, marks: Path) -> Path:
    """The project to work in."""
    project = shutil.copytree(original, folder / "project")
    hostile = project
    if place == "linked":
        git(project, "worktree", "add", "--quiet", "-b", "linked", str(folder / "linked"))
    elif place == "nested":
        hostile = shutil.copytree(original, project / "lib")
    elif place == "deep":
        shutil.copytree(original, project / "vendor" / "lib")
        hostile = shutil.copytree(original, project / "vendor" / "lib" / "inner")
    elif place == "copied in":  # its files were committed before it became a repository
        shutil.copytree(original, project / "lib", ignore=shutil.ignore_patterns(".git"))
        git(project, "add", "lib")
        git(project, "commit", "--quiet", "-m", "vendored")
        shutil.copytree(original / ".git", project / "lib" / ".git")
        hostile = project / "lib"
    spring(Trap(hostile, vector.name, marks), vector)
    if place == "behind a link":
        (project / ".git").rename(project / "elsewhere")
        (project / ".git").symlink_to("elsewhere")
    project = {"linked": folder / "linked", "below": project / "sub"}.get(place, project)
    (project / "a.txt").write_text("changed\n", encoding="utf-8")
    return project
