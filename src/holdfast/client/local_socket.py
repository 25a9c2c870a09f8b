"""Unix sockets between processes of one user: checks the path and the user at the other end."""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path

from holdfast.schema.exceptions import HoldfastError

PROBE_SECONDS = 2.0
OWNER_ONLY = 0o077


class UntrustedSocket(HoldfastError):
    """No process of this user listens at this path."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


def verify_socket(path: str) -> None:
    """Raises UntrustedSocket unless a process of this user listens there, in a directory that only this user can
    change. Nothing is sent."""
    try:
        folder, entry = os.stat(Path(path).parent), os.lstat(path)
    except OSError as error:
        raise UntrustedSocket(path, error.strerror or str(error)) from error
    if folder.st_uid != os.getuid() or folder.st_mode & OWNER_ONLY:
        raise UntrustedSocket(path, "its directory is open to other users")
    if not stat.S_ISSOCK(entry.st_mode) or entry.st_uid != os.getuid():
        raise UntrustedSocket(path, "it is no socket of this user")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PROBE_SECONDS)
        try:
            connection.connect(path)
            uid = peer_uid(connection.fileno())
        except OSError as error:
            raise UntrustedSocket(path, error.strerror or str(error)) from error
    if uid is not None and uid != os.getuid():
        raise UntrustedSocket(path, "a process of another user listens there")


def peer_uid(descriptor: int) -> int | None:
    """The user at the other end of a connected Unix socket; None where the system cannot tell, which only Linux can in
    this form. Then the permissions of the directory are the only check."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        credentials = connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
