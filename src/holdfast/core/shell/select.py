"""Selects the shell that runs commands, and the shell of a terminal."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from holdfast.core.process.which import which

if TYPE_CHECKING:
    from collections.abc import Mapping

STANDARD = "/bin/sh"
LOGIN = frozenset({"bash", "dash", "fish", "ksh", "sh", "zsh"})
"""Shells that support `-l`."""
OTHER_LANGUAGE = frozenset({"fish", "nu"})
"""Shells that do not understand POSIX commands."""


def command_shell(configured: str | None, environment: Mapping[str, str]) -> str:
    """The shell for `<shell> -c <command>`: the configured one, or `/bin/sh` if that is missing or not POSIX."""
    found = _resolve(configured, environment)
    return STANDARD if found is None or name_of(found) in OTHER_LANGUAGE else found


def terminal_shell(configured: str | None, environment: Mapping[str, str], *, platform: str = sys.platform) -> str:
    """The configured shell, the user's `SHELL`, or the first of zsh (on macOS), bash and `/bin/sh` that exists."""
    zsh = "/bin/zsh" if platform == "darwin" else None
    candidates = (configured, environment.get("SHELL"), zsh, "bash")
    return next((found for shell in candidates if (found := _resolve(shell, environment)) is not None), STANDARD)


def name_of(shell: str) -> str:
    return PurePath(shell).name.lower()


def _resolve(shell: str | None, environment: Mapping[str, str]) -> str | None:
    return which(shell, environment.get("PATH")) if shell else None
