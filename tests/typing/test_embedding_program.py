"""A user's program that embeds Holdfast runs, and has no type errors under the strictest settings of two checkers.

A checker runs on a copy outside the repository: it reads the installed package and none of our settings."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.conftest import npm_package

PROGRAM = Path(__file__).with_name("program")
EXAMPLES = Path(__file__).parents[2] / "examples"
PYRIGHT = "1.1.414"
SECONDS = 100
CACHE = Path(sys.prefix) / "mypy-cache-of-embedding-program"
"""Kept between runs: the first one takes seven seconds."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROGRAM, tmp_path / "program", ignore=shutil.ignore_patterns("__pycache__")))


def test_the_program_runs(program: Path) -> None:
    environment = {"HOME": str(program.parent), "PATH": ""}
    command = [sys.executable, "agent.py"]
    ran = subprocess.run(command, cwd=program, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "Ticket 7: the export button is hidden.\n", "")


def test_mypy_has_no_complaint_in_strict_mode(program: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={CACHE}", "agent.py"]
    ran = subprocess.run(command, cwd=program, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (ran.returncode, ran.stdout) == (0, "Success: no issues found in 1 source file\n"), ran.stderr


@pytest.mark.acceptance
@pytest.mark.timeout(180)
def test_pyright_has_no_complaint_in_strict_mode(program: Path) -> None:
    """About the program, and about the examples."""
    modules = npm_package("pyright", PYRIGHT)
    shutil.copytree(EXAMPLES, program / "examples")
    (program / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    command = [str(modules / ".bin" / "pyright"), "--pythonpath", sys.executable, "--project", "."]
    ran = subprocess.run(command, cwd=program, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "0 errors, 0 warnings" in ran.stdout
