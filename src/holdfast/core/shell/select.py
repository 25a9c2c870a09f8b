"""Which shell runs a command, and which one a terminal opens."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from holdfast.core.process.which import which
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

STANDARD = "/bin/sh"
LOGIN = frozenset({"bash", "dash", "fish", "ksh", "sh", "zsh"})
OTHER_LANGUAGE = frozenset({"fish", "nu"})
"""Shells in which a POSIX command means something else, or nothing."""


class TerminalShell(Frozen):
    path: str
    login: bool
    """Whether it knows `-l`."""


def command_shell(configured: str | None, environment: Mapping[str, str]) -> str:
    """For `<shell> -c <command>`. What does not resolve, or speaks another language, gives way to the standard one."""
    found = _resolve(configured, environment)
    return STANDARD if found is None or name_of(found) in OTHER_LANGUAGE else found


def terminal_shell(
    configured: str | None, environment: Mapping[str, str], *, platform: str = sys.platform
) -> TerminalShell:
    zsh = "/bin/zsh" if platform == "darwin" else None
    for candidate in (configured, environment.get("SHELL"), zsh, "bash"):
        if (found := _resolve(candidate, environment)) is not None:
            return TerminalShell(found, name_of(found) in LOGIN)
    return TerminalShell(STANDARD, login=True)


def name_of(shell: str) -> str:
    return PurePath(shell).name.lower()


def _resolve(shell: str | None, environment: Mapping[str, str]) -> str | None:
    return which(shell, environment.get("PATH")) if shell else None
