"""What a confined command may write, read and reach. Data only; the back ends enforce it."""

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
    """A mode that does not exist."""

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
    """What the user configured."""

    mode: Setting = "off"
    network: Network = "off"
    required: bool = False
    """Refuse to run a command that cannot be confined."""
    writable: tuple[str, ...] = ()
    """Further directories that commands may write in `workspace` mode; `~/` is the home directory."""
    hosts: tuple[str, ...] = ("*",)
    """What `network: proxy` may reach: `*` is every public host; a named host may also be private."""


class Confinement(Frozen):
    """For one command. All paths are absolute and without symbolic links, except the last part of a protected one."""

    mode: Mode
    network: Network
    temporary: Path
    """A directory of its own, writable in every mode; commands find it in TMPDIR."""
    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    """Inside writable directories, but not writable; also those that do not exist yet."""
    hidden: tuple[Path, ...] = ()
    """Not readable. Only what exists is listed."""
    readable: tuple[Path, ...] = ()
    """Inside hidden directories, but readable."""
    proxy: Path | None = None
    """The Unix socket of the proxy, for network `proxy`."""


class Launch(Frozen):
    """What to execute in place of a command, so that it runs confined."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    descriptors: tuple[int, ...] = ()
    """Inherited by the launcher, which closes them before it executes the command."""
