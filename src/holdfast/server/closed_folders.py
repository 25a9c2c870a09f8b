"""Folders of Holdfast itself, into which only admins look: the server's password is there, and keys of providers.
Isolated copies of projects are open: Sessions work in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.filesystem.canonical import contains
from holdfast.schema.exceptions import Forbidden
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.server.caller import Caller

SHOWN = 200


class ClosedFolders(Frozen):
    """Canonical directories that a caller may not look into."""

    folders: tuple[str, ...]
    copies: str = ""
    """The folder with isolated copies."""

    def contain(self, path: str) -> bool:
        """Whether a canonical path is closed."""
        closed = any(contains(folder, path) for folder in self.folders)
        return closed and not path.startswith(f"{self.copies}/")


def closed_folders(runtime: Runtime, caller: Caller) -> ClosedFolders:
    if caller.has("admin"):
        return ClosedFolders(())
    environment = runtime.environment
    home = environment.get("HOME") or os.path.expanduser("~")
    state = environment.get("XDG_STATE_HOME") or f"{home}/.local/state"
    config = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    folders = (str(runtime.paths.data), f"{state}/holdfast", f"{config}/opencode", f"{config}/holdfast")
    return ClosedFolders(tuple(map(os.path.realpath, folders)), os.path.realpath(runtime.paths.copies))


def check_open(runtime: Runtime, caller: Caller, directory: str) -> None:
    """Raises Forbidden for a directory in a folder that the caller may not look into."""
    closed = closed_folders(runtime, caller)
    if closed.folders and closed.contain(os.path.realpath(directory)):
        raise closed_to(directory)


def closed_to(path: str) -> Forbidden:
    return Forbidden(f"{path[:SHOWN]} belongs to Holdfast itself, which needs the role admin.", role="admin")
