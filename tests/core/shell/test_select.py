"""Which shell is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.shell.select import STANDARD, TerminalShell, command_shell, terminal_shell


@pytest.fixture
def path(tmp_path: Path) -> str:
    for name in ("bash", "zsh", "fish", "nu", "dash", "tool"):
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("configured", "found"),
    [(None, STANDARD), ("", STANDARD), ("bash", "bash"), ("absent", STANDARD), ("fish", STANDARD), ("nu", STANDARD)],
)
def test_the_shell_for_commands_is_the_setting_if_it_resolves(path: str, configured: str | None, found: str) -> None:
    """TOL-210, TOL-228: the setting if it resolves and speaks the language, else the standard shell."""
    expected = found if found == STANDARD else f"{path}/{found}"
    assert command_shell(configured, {"PATH": path, "SHELL": f"{path}/zsh"}) == expected


@pytest.mark.parametrize(
    ("configured", "shell", "found", "login"),
    [
        ("fish", "zsh", "fish", True),
        ("nu", "zsh", "nu", False),
        ("absent", "zsh", "zsh", True),
        (None, "dash", "dash", True),
        (None, "absent", "bash", True),
        ("tool", None, "tool", False),
    ],
)
def test_the_shell_for_terminals_is_the_setting_then_the_users(
    path: str, configured: str | None, shell: str | None, found: str, login: bool
) -> None:
    """TOL-228: the setting, then the person's, then bash; which of them take a login flag."""
    environment = {"PATH": path, **({"SHELL": f"{path}/{shell}"} if shell else {})}
    assert terminal_shell(configured, environment, platform="linux") == TerminalShell(f"{path}/{found}", login)


def test_for_terminals_in_the_end(tmp_path: Path) -> None:
    """TOL-228: something always opens."""
    assert terminal_shell(None, {"PATH": str(tmp_path)}, platform="linux") == TerminalShell(STANDARD, login=True)
