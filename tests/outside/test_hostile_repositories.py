"""A cloned repository executes nothing: not when it is opened, not when a model works in it, not when it is copied."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Machine
from tests.outside.hostile import EDITING, VECTORS, Api, Trap, git, honest, running, spring, work

OPENING_SECONDS = 1.0
SECRET = "sk-canary-of-the-host"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One server with secrets in its environment, and a PATH that begins with the current directory."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.script(*EDITING)
    machine.environment |= {"PATH": f".::{machine.environment['PATH']}", "ANTHROPIC_API_KEY": SECRET}
    with running(machine) as api:
        yield api


@pytest.fixture
def original(tmp_path: Path) -> Path:
    return honest(tmp_path / "original")


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    return tmp_path / "marks"


def test_every_way_works_against_plain_git(original: Path, tmp_path: Path, marks: Path) -> None:
    """CAT-171: otherwise the tests below would prove nothing."""
    for vector in VECTORS:
        if vector.fires is not None:
            marks.unlink(missing_ok=True)
            root = shutil.copytree(original, tmp_path / "plain" / vector.name)
            spring(Trap(root, vector.name, marks), vector)
            git(root, *vector.fires, check=False)
            assert marks.exists(), vector.name


def test_opening_a_hostile_repository_executes_nothing(api: Api, original: Path, tmp_path: Path, marks: Path) -> None:
    """CAT-171, TOL-390: whatever the repository says, at its root or below, within a second."""
    api.get("/api/agent", original)
    for vector in VECTORS:
        root = shutil.copytree(original, tmp_path / "opened" / vector.name)
        spring(Trap(root, vector.name, marks), vector)
        for directory in (root, root / "sub") if vector in VECTORS[:6] else (root,):
            begun = time.monotonic()
            assert api.get("/api/agent", directory).status_code == 200, vector.name
            assert time.monotonic() - begun < OPENING_SECONDS, vector.name
        assert api.get("/api/location", root).json()["project"]["directory"] == str(root), vector.name
        assert not marks.exists(), marks.read_text()


@pytest.mark.parametrize("place", ["root", "nested"])
def test_working_in_a_hostile_repository_executes_nothing(
    api: Api, original: Path, tmp_path: Path, marks: Path, place: str
) -> None:
    """CAT-171, TOL-392, TOL-493: a step with its snapshots, a revert, a copy, a move with changes; for the ways that
    such work sets off in plain git, all in one repository, or in one that lies among the project's files."""
    project = shutil.copytree(original, tmp_path / "project-with-traps")
    root = project if place == "root" else shutil.copytree(original, project / "vendor" / "lib")
    trap = Trap(root, "all", marks)
    wanted = (
        "fsmonitor",
        "hooks",
        "configured hooks",
        "clean",
        "smudge",
        "process",
        "info attributes",
        "diff driver",
        "include",
        "submodule",
    )
    for vector in (vector for vector in VECTORS if vector.name in wanted):
        spring(trap, vector)
    (project / "a.txt").write_text("changed\n", encoding="utf-8")
    carried = work(api, project, tmp_path / "copies")
    assert carried == (place == "nested"), "with a filter on every file nothing can be carried"
    assert not marks.exists(), marks.read_text()
    assert SECRET not in "".join(path.read_text(errors="replace") for path in project.rglob("*.txt"))
