"""Folders of Holdfast itself, into which only admins look: the server's password is there, and keys of providers.
Isolated copies of projects and plans are open: Sessions work on them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.filesystem.own_folders import OwnFolders
from holdfast.schema.exceptions import Forbidden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.filesystem.own_folders import Identity, Use
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.server.caller import Caller

SHOWN = 200


class ClosedFolders:
    """Where a caller may not look."""

    def __init__(self, folders: OwnFolders) -> None:
        self._folders = folders

    def contain(self, path: str) -> bool:
        """Whether a canonical path is closed: tools may not write there."""
        return self._folders.use(path, "write") != "open"

    def identities(self) -> Mapping[Identity, Use]:
        """The same for a search, which meets the folders on its way."""
        return self._folders.identities("write")


def closed_folders(runtime: Runtime, caller: Caller) -> ClosedFolders:
    return ClosedFolders(OwnFolders() if caller.has("admin") else runtime.own_folders)


def check_open(runtime: Runtime, caller: Caller, directory: str) -> None:
    """Raises Forbidden for a directory in a folder that the caller may not look into."""
    if closed_folders(runtime, caller).contain(os.path.realpath(directory)):
        raise closed_to(directory)


def closed_to(path: str) -> Forbidden:
    return Forbidden(f"{path[:SHOWN]} belongs to Holdfast itself, which needs the role admin.", role="admin")
