"""`.ci/audit.py`: what it says of each answer that pip-audit can give."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

SOUND = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "not found"}
VULNERABLE = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}


def audit(*pip_audit: str) -> tuple[int, list[str]]:
    command = [sys.executable, str(ROOT / ".ci" / "audit.py"), *pip_audit]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    return ran.returncode, [line.removeprefix("audit: ") for line in ran.stdout.splitlines()]


@pytest.mark.parametrize(
    ("packages", "code", "lines"),
    [
        ([SOUND], 0, ["1 of 1 packages checked"]),
        ([SOUND, SKIPPED], 0, ["1 of 2 packages checked", "NOT CHECKED b: not found"]),
        ([SOUND, VULNERABLE], 1, ["2 of 2 packages checked", "VULNERABLE c 2: PYSEC-1 (fixed in 3)"]),
        ([SKIPPED], 0, ["NOT CHECKED, the vulnerability service gave no answer: not found"]),
    ],
)
def test_what_was_not_checked_is_never_called_sound(
    packages: list[dict[str, Any]], code: int, lines: list[str], tmp_path: Path
) -> None:
    """Exit code 1 only for a vulnerability."""
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"dependencies": packages}), encoding="utf-8")
    assert audit("sh", "-c", f"cat '{answer}'") == (code, lines)


@pytest.mark.parametrize(
    ("pip_audit", "reason"),
    [
        (("sh", "-c", "echo trace >&2; echo 'cannot resolve the host' >&2; exit 1"), "cannot resolve the host"),
        (("sh", "-c", "exit 1"), "no reason given"),
        (("/no/such/program",), "No such file or directory"),
    ],
)
def test_a_service_that_is_not_there_is_said_and_fails_nothing(pip_audit: tuple[str, ...], reason: str) -> None:
    code, (line,) = audit(*pip_audit)
    assert (code, line.startswith("NOT CHECKED"), reason in line) == (0, True, True)
