"""`.ci/flaky.py`: which failures let a run pass, and how they are told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "flaky.py"

PASSES = "def test_passes():\n    pass\n"
FAILS = "def test_fails():\n    assert False\n"
FAILS_ONCE = """
import pathlib
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_fails_once(number):
    seen = pathlib.Path(__file__).with_name(f"seen{number}")
    if not seen.exists():
        seen.touch()
        assert number == 2
"""


def run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "test_sample.py").write_text(text, encoding="utf-8")
    command = [sys.executable, str(SCRIPT), "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # starts in half the time
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "two workers"])
def test_a_test_that_passes_alone_is_flaky_and_lets_the_run_pass(tmp_path: Path, options: tuple[str, ...]) -> None:
    ran = run(tmp_path, PASSES + FAILS_ONCE, *options)
    assert (ran.returncode, flaky(ran)) == (0, ["FLAKY test_sample.py::test_fails_once[1]"])


def test_a_test_that_fails_again_fails_the_run(tmp_path: Path) -> None:
    ran = run(tmp_path, PASSES + FAILS + FAILS_ONCE)
    assert (ran.returncode, flaky(ran)) == (1, ["FLAKY test_sample.py::test_fails_once[1]"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (PASSES, 0),
        ("import no_such_module", 2),
        ("import pytest\n@pytest.mark.parametrize('n', range(21))\ndef test_n(n):\n    assert False\n", 1),
    ],
    ids=["nothing fails", "a module cannot be imported", "too much fails"],
)
def test_nothing_is_run_again_when_nothing_or_too_much_fails(tmp_path: Path, text: str, code: int) -> None:
    ran = run(tmp_path, text)
    assert (ran.returncode, "failed tests again" in ran.stdout) == (code, False)


def flaky(ran: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in ran.stdout.splitlines() if line.startswith("FLAKY")]
