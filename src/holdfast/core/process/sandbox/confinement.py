"""Describes what a confined command may write, read and reach. Data only; the back ends enforce it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Mode: TypeAlias = Literal["read-only", "workspace"]
Setting: TypeAlias = Literal["off", "read-only", "workspace"]
Network: TypeAlias = Literal["off", "proxy", "on"]

SETTINGS: tuple[Setting, ...] = ("off", "read-only", "workspace")
SANDBOX = "HOLDFAST_SANDBOX"
"""The environment variable that sets the mode."""


class InvalidSandbox(HoldfastError, ValueError):
    """An unknown sandbox mode."""

    def __init__(self, given: str) -> None:
        super().__init__(f"there is no sandbox mode {given!r}; the modes are {', '.join(SETTINGS)}")


def sandbox_choice(given: str | None) -> Setting | None:
    """Raises InvalidSandbox: a misspelled mode must not mean none."""
    found = next((setting for setting in SETTINGS if setting == given), None)
    if given and found is None:
        raise InvalidSandbox(given)
    return found


class SandboxUnavailable(HoldfastError):
    """This machine cannot enforce the confinement; the text says why."""


class SandboxSettings(Frozen):
    """The sandbox as configured by the user."""

    mode: Setting = "off"
    network: Network = "off"
    required: bool = False
    """Refuse to run a command that cannot be confined."""
    writable: tuple[str, ...] = ()
    """Further directories that commands may write to in `workspace` mode; `~/` is the home directory."""
    hosts: tuple[str, ...] = ("*",)
    """Hosts that `network: proxy` may reach: `*` is every public host; a host listed by name may be private."""


class Confinement(Frozen):
    """The rights of one command. All paths are absolute and without symbolic links, except the last component of a
    protected path."""

    mode: Mode
    network: Network
    temporary: Path
    """A private directory, writable in every mode; TMPDIR of the command."""
    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    """Paths inside writable directories that are not writable; they may not exist yet."""
    absent: tuple[Path, ...] = ()
    """Files inside writable directories that do not exist. What a command makes of them is set aside."""
    hidden: tuple[Path, ...] = ()
    """Existing paths that are not readable."""
    readable: tuple[Path, ...] = ()
    """Paths inside hidden directories that are readable."""
    proxy: Path | None = None
    """The Unix socket of the proxy, for network `proxy`."""


class Launch(Frozen):
    """What to execute in place of a command so that it runs confined."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    descriptors: tuple[int, ...] = ()
    """File descriptors that the launcher inherits and closes before it executes the command."""
