"""What real shells run, against what is asked for it: grammar and shells must not read a command differently."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.shell.approval import OPAQUE, approval
from holdfast.core.shell.grammar import parse

SHELLS = [shell for shell in ("/bin/sh", "/bin/dash", "/bin/bash") if shutil.which(shell)]
COMMAND = "touch ran"
PIECES = [
    COMMAND,
    *("echo", "cat", "x", "a=", "E", " ", ";", "\n", "|", "||", "&&", "&", "#", " #", "!", "=", ","),
    *("'", '"', "\\", "`", "$", "$(", ")", "(", "{ ", "; }", "${x:-", "${x%", "}", "$'", '$"', "\\\n", "\r", "\t"),
    *("[[ ", " ]]", "[", "]", "((", "))", "$((", "=~", "-eq", "<<<", "<", ">y", "<(", "x=(", "f()", "time "),
    *("cat <<E", "cat <<-E", "cat <<'E'", '<<"E"', "\nE\n", "\n\tE\n", "\nE;\n"),
    *("if true; then ", "; fi", "for i in x; do ", "; done", "case x in x) ", ";;", " esac", "else ", "do "),
]


@settings(
    max_examples=500, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=10), st.lists(st.sampled_from(PIECES), max_size=4))
def test_nothing_runs_that_was_not_asked_for(before: list[str], after: list[str]) -> None:
    """TOL-224, TOL-318: a command that a shell runs is one of the resources, or all of it is opaque."""
    script = "".join((*before, COMMAND, *after))
    resources = approval(parse(script)).resources
    if resources[-1].startswith(OPAQUE) or any(resource.startswith(COMMAND) for resource in resources):
        return
    assert [shell for shell in SHELLS if runs(script, shell)] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_the_harness_runs_real_shells(shell: str) -> None:
    """TOL-224: what is run above would be noticed."""
    assert runs(COMMAND, shell)


def runs(script: str, shell: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            (shell, "-c", script),
            cwd=folder,
            env={"PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=50,
        )
        return (Path(folder) / "ran").exists()
