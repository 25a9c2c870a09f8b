"""The wheel installs with pip into a clean environment of each supported Python, and works outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from holdfast import __version__

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13")
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)], ROOT)
    (wheel,) = folder.iterdir()
    return wheel


def test_the_wheel_carries_its_types_and_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        about = Parser().parsestr(archive.read(metadata).decode())
    assert "holdfast/py.typed" in names
    assert {name.partition("/")[0] for name in names} == {"holdfast", metadata.partition("/")[0]}
    assert (about["Name"], about["Version"], about["License-Expression"]) == ("holdfast-runtime", __version__, "MIT")
    assert about["Author"] == "The Holdfast authors"


def test_the_wheel_carries_the_page(wheel: Path) -> None:
    """WEB-006: every file of it, as it is in the repository."""
    folder = ROOT / "src" / "holdfast" / "server" / "web" / "assets"
    with zipfile.ZipFile(wheel) as archive:
        carried = {
            name.removeprefix("holdfast/server/web/assets/"): archive.read(name)
            for name in archive.namelist()
            if name.startswith("holdfast/server/web/assets/")
        }
    kept = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert carried == kept
    assert "index.html" in kept


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works_in_a_clean_environment(version: str, wheel: Path, tmp_path: Path) -> None:
    environment, project = tmp_path / "environment", tmp_path / "project"
    project.mkdir()
    (project / "hello.txt").write_text("hello world\n", encoding="utf-8")
    run([interpreter(version), "-m", "venv", str(environment)], tmp_path)
    python, holdfast = str(environment / "bin" / "python"), str(environment / "bin" / "holdfast")
    run([python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel)], tmp_path)
    run([python, "-m", "pip", "check"], tmp_path)

    assert run([python, "-m", "holdfast", "--version"], project) == f"holdfast, version {__version__}\n"
    answer = run([holdfast, "run", "--model", "demo/echo", "What does hello.txt say?"], project, HOME=str(tmp_path))
    assert answer == "Reading hello.txt.\nThe file begins: hello world\n"


def interpreter(version: str) -> str:
    """A Python of that version from the PATH or from pyenv. Skips the test where there is none."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for candidate in (shutil.which(f"python{version}"), *map(str, installed)):
        # A shim on the PATH may belong to a version that is not selected.
        if candidate and reports(candidate, version):
            return candidate
    pytest.skip(f"Python {version} is not installed")


def reports(python: str, version: str) -> bool:
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    asked = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return asked.stdout.strip() == version


def run(command: list[str], folder: Path, **environment: str) -> str:
    """Standard output. The environment has nothing of the one that runs the tests but where to find packages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "XDG"))}
    ran = subprocess.run(
        command, cwd=folder, env={**kept, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout
