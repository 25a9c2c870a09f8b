"""Checks the command of a shell message before anything is run."""

from __future__ import annotations

from holdfast.core.session.errors import InvalidShellCommand

COMMAND_BYTES = 100_000
"""Linux takes at most 128 KiB in one argument of a program."""


def check_command(command: str) -> None:
    """Raises InvalidShellCommand."""
    if not command.strip():
        raise InvalidShellCommand("it is empty")
    if "\0" in command:
        raise InvalidShellCommand("it contains a NUL character")
    if len(command.encode("utf-8", "replace")) > COMMAND_BYTES:
        raise InvalidShellCommand(f"it may have at most {COMMAND_BYTES} bytes")
