"""Scripts that complete `holdfast`, and what they are told."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from tests.cli.conftest import HOLDFAST, ColdMachine, Machine

MACHINE = ColdMachine


def completed(machine: Machine, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    ran = machine(
        _HOLDFAST_COMPLETE="bash_complete", COMP_WORDS="\n".join(("holdfast", *words)), COMP_CWORD=str(len(words))
    )
    assert ran.err == ""
    return [line.partition(",")[2] for line in ran.out.splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(holdfast: Machine, shell: str) -> None:
    """CLI-003: which the shell itself can read, where it is installed."""
    ran = holdfast("completion", shell)

    assert (ran.code, ran.err) == (0, "")
    assert "_HOLDFAST_COMPLETE" in ran.out
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=ran.out, text=True, check=True)
    assert holdfast("completion", "tcsh").code == 2


def test_commands_and_options_are_completed(holdfast: Machine) -> None:
    """CLI-003."""
    assert completed(holdfast, "sess") == ["sessions"]
    assert "undo" in completed(holdfast, "sessions", "u")
    assert "--continue" in completed(holdfast, "run", "--con")


def test_sessions_models_and_agents_are_completed(holdfast: Machine) -> None:
    """CLI-003, CLI-004: an id also by a part of the title."""
    id = holdfast("run", "--model", "demo/echo", "Some words").session
    offered: dict[str, list[str]] = {}
    for _ in range(5):  # on a busy machine one attempt may take too long
        offered |= {"id": completed(holdfast, "sessions", "show", id[:8])}
        offered |= {"title": completed(holdfast, "run", "--session", "words")}
        offered |= {"model": completed(holdfast, "run", "-m", "demo/")}
        offered |= {"agent": completed(holdfast, "run", "--agent", "bu")}
        if all(offered.values()):
            break

    assert offered["id"] == offered["title"] == [id]
    assert "demo/echo" in offered["model"]
    assert "build" in offered["agent"]


def test_a_broken_store_completes_nothing_and_says_nothing(holdfast: Machine) -> None:
    """CLI-004."""
    assert completed(holdfast, "sessions", "show", "ses_") == []
    holdfast.environment["HOLDFAST_DATABASE"] = "nonsense://x"
    assert completed(holdfast, "sessions", "show", "ses_") == []


def test_bash_completes_with_the_script(holdfast: Machine) -> None:
    """CLI-003: in a real bash."""
    script = (
        f"source <({HOLDFAST} completion bash); COMP_WORDS=(holdfast comp); COMP_CWORD=1; "
        f'_holdfast_completion holdfast; echo "${{COMPREPLY[@]}}"'
    )
    environment = {**holdfast.environment, "PATH": f"{os.path.dirname(HOLDFAST)}:{holdfast.environment['PATH']}"}
    ran = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )

    assert ran.stdout.split() == ["completion"]
