"""Registers a running server for the clients of this machine, until it ends. `client/discovery.py` describes the
files."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.client import socket_folder
from holdfast.client.discovery import WITHOUT_PORT, RunningServer, forget, running_servers, servers_folder
from holdfast.core.database.place import place_identity
from holdfast.core.runtime.paths import default_paths
from holdfast.core.runtime.storage_choice import storage_place
from holdfast.private_files import own_directory
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103
"""The longest path of a Unix socket, without the final zero byte."""
BACKLOG = 128
ATTEMPTS = 100


class NotRegistered(HoldfastError):
    """The files of this server disappear as soon as they are made."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"cannot register this server in {folder}: its lock file does not stay")


@contextmanager
def registered(
    environment: Mapping[str, str], *, id: str, url: str, data: Path, store: str = ""
) -> Iterator[socket.socket]:
    """Register the server and yield the socket that local clients connect to; the caller accepts connections on it."""
    folder = servers_folder(environment)
    own_directory(folder.parent)
    own_directory(folder)
    running_servers(environment)  # removes files of dead processes
    entry, lock = _locked(folder)
    try:
        path = _socket_path(entry)
        server = RunningServer(
            id=id,
            version=__version__,
            url=url,
            pid=os.getpid(),
            data=str(data),
            started=int(time.time() * 1000),
            socket=str(path),
            store=store,
        )
        draft = entry.with_suffix(".draft")
        draft.touch(mode=0o600)
        draft.write_bytes(encode(server))
        if path.parent != folder:
            path.parent.mkdir(mode=0o700)
            socket_folder.remove_abandoned(path.parent)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            os.chmod(path, 0o600)
            listener.listen(BACKLOG)
            draft.replace(entry.with_suffix(".json"))
            yield listener
    finally:
        forget(entry)
        os.close(lock)


def server_of(environment: dict[str, str], *, port: bool = False) -> RunningServer | None:
    """The newest running server on the data directory and the database that this environment selects; with `port` the
    newest one that listens on a port."""
    paths = default_paths(environment)
    store = place_identity(storage_place(None, environment, paths.database), environment)
    found = running_servers(environment, data=paths.data, store=store)
    return next((server for server in found if not port or server.url != WITHOUT_PORT), None)


def _locked(folder: Path) -> tuple[Path, int]:
    """A new name and its lock. A client that finds the lock file before it is locked may remove it; then another name
    is tried."""
    for _ in range(ATTEMPTS):
        entry = folder / secrets.token_hex(4)
        path = entry.with_suffix(".lock")
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return entry, handle
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(handle)
    raise NotRegistered(folder)


def _socket_path(entry: Path) -> Path:
    """Beside the other files, or in a directory of its own if that path is longer than the system allows."""
    path = entry.with_suffix(".sock")
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
        return path
    root = Path(tempfile.gettempdir())
    if len(os.fsencode(root)) > SOCKET_PATH_BYTES // 2:
        root = Path("/tmp")
    return socket_folder.unused_path(root) / socket_folder.SOCKET
