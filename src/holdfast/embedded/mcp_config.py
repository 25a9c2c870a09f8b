"""Adds MCP servers to a configuration file, and removes them. Everything else in the file stays as it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.atomic_write import atomic_write
from holdfast.core.config.discovery import NAMES
from holdfast.core.config.edit import EditRefused, remove_value, set_value
from holdfast.core.config.environment import config_home
from holdfast.core.config.jsonc import InvalidJson, decode
from holdfast.core.config.unsupported import RESERVED_SERVERS
from holdfast.private_files import make_directory
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


NAME_CHARACTERS = 200


class ConfigNotChanged(HoldfastError):
    """A configuration file could not be changed; it is as it was."""


class McpConfigFile:
    """The user's configuration file, or that of a project."""

    def __init__(self, project: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        """Without `project`, the user's."""
        folder = project if project is not None else config_home(os.environ if environment is None else environment)
        there = [folder / name for name in reversed(NAMES) if (folder / name).exists()]
        self.path = there[0] if there else folder / NAMES[0]
        self._new_mode = 0o644 if project is not None else 0o600

    def add(self, name: str, config: Mapping[str, Any]) -> None:
        """Replaces a server of this name. Written so that every version of OpenCode reads it too. Raises
        ConfigNotChanged."""
        if name in RESERVED_SERVERS or name in ("servers", "timeout"):
            raise ConfigNotChanged(f"No MCP server can be called {name}.")
        if not name.strip() or len(name) > NAME_CHARACTERS or not name.isprintable():
            raise ConfigNotChanged(f"No MCP server can be called {name[:NAME_CHARACTERS]!r}.")
        self._change(lambda text: set_value(text, (*_above(text, name), name), dict(config)))

    def remove(self, name: str) -> bool:
        """Returns whether the file had it."""
        found = False

        def change(text: str) -> str:
            nonlocal found
            found = name in _servers(text, name)
            return remove_value(text, (*_above(text, name), name)) if found else text

        self._change(change)
        return found

    def _read(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigNotChanged(f"{self.path} cannot be read: {error}") from error

    def _change(self, change: Callable[[str], str]) -> None:
        text = self._read()
        try:
            changed = change(text)
        except InvalidJson as error:
            raise ConfigNotChanged(f"{self.path} is not changed: it {error}. Correct it first.") from error
        except EditRefused as error:
            raise ConfigNotChanged(f"{self.path} is not changed: {error}. Edit it by hand.") from error
        if changed == text:
            return
        target = Path(os.path.realpath(self.path))
        try:
            mode = target.stat().st_mode & 0o777 if target.exists() else self._new_mode
            make_directory(target.parent)
            atomic_write(target, changed.encode())
            target.chmod(mode)
        except OSError as error:
            raise ConfigNotChanged(f"{self.path} cannot be written: {error.strerror}") from error


def _above(text: str, name: str) -> tuple[str, ...]:
    """Where the servers of this file are."""
    mcp = _mcp(text)
    nested = mcp.get("servers")
    return ("mcp", "servers") if isinstance(nested, dict) and "type" not in nested and name not in mcp else ("mcp",)


def _servers(text: str, name: str) -> Mapping[str, Any]:
    mcp = _mcp(text)
    return mcp["servers"] if len(_above(text, name)) == 2 else mcp


def _mcp(text: str) -> dict[str, Any]:
    document = decode(text).value if text.strip() else {}
    found = document.get("mcp") if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}
