"""Directories for sockets whose usual path would be too long. They are in the directory for temporary files, and only
their owner can enter them.

Invariants
- The path is recorded in the registration before the directory is made, so that a killed server leaves none of which
  nobody knows.
- A directory is removed only if it has our prefix, belongs to this user, is closed to others, and has nothing in it but
  a socket. One that no registration names must also be a minute old, and nobody may listen at its socket."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path

from holdfast.client.local_socket import OWNER_ONLY

PREFIX = "holdfast-server-"
SOCKET = "server.sock"
SETTLED_SECONDS = 60
"""In a younger directory a server may be about to listen."""
MOST_EXAMINED = 50


def unused_path(root: Path) -> Path:
    """Where a new directory can be made."""
    return root / f"{PREFIX}{secrets.token_hex(8)}"


def remove(folder: Path) -> None:
    """Remove the directory of a server that has ended, unless it is not such a directory."""
    with suppress(OSError):
        if _is_ours(folder):
            _remove(folder)


def remove_abandoned(beside: Path) -> None:
    """Remove directories that no registration names any more, for example because its state directory was deleted. They
    are beside the given one, which was just made: ages are counted from it, as this process's clock can be wrong."""
    with suppress(OSError), os.scandir(beside.parent) as entries:
        now = beside.lstat().st_ctime
        named = [Path(entry) for entry in entries if entry.name.startswith(PREFIX)]
        for folder in sorted(named)[:MOST_EXAMINED]:
            _remove_if_abandoned(folder, now)


def _remove_if_abandoned(folder: Path, now: float) -> None:
    with suppress(OSError):
        settled = now - folder.lstat().st_ctime >= SETTLED_SECONDS
        if settled and _is_ours(folder) and not _listened(folder / SOCKET):
            _remove(folder)


def _is_ours(folder: Path) -> bool:
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & OWNER_ONLY
    return private and folder.name.startswith(PREFIX) and set(os.listdir(folder)) <= {SOCKET}


def _remove(folder: Path) -> None:
    path = folder / SOCKET
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    folder.rmdir()


def _listened(path: Path) -> bool:
    """Whether a process listens there; also if that cannot be found out."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        return connection.connect_ex(str(path)) not in (errno.ECONNREFUSED, errno.ENOENT)
