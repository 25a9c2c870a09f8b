"""Finds the servers that run on this machine.

Each server has three files with one name in a directory that only its owner can enter: `.json` describes it, `.sock` is
its socket for local clients, and `.lock` is locked by its process.

Invariants
- A server runs exactly as long as its lock is held. The system releases the lock however the process ends, so neither a
  process id nor a reused port is trusted.
- Files of a process that ended without removing them are removed by the next process that finds them.
- Local clients use the socket, so that no password is sent to a port."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.client import socket_folder
from holdfast.client.credential import state_folder
from holdfast.private_files import close_to_others
from holdfast.schema.codec import decoder
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

WITHOUT_PORT = "http://localhost:0"
"""The URL of a server that only local clients reach, over its socket. Nothing listens on port 0."""


class RunningServer(Record):
    id: str
    version: str
    url: str
    pid: int
    data: str
    """Its data directory."""
    started: int
    socket: str
    store: str = ""
    """A digest of the address of its database; empty if that is a file in the data directory."""


def servers_folder(environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / "servers"


def running_servers(
    environment: Mapping[str, str], *, data: Path | None = None, store: str = ""
) -> list[RunningServer]:
    """Newest first; only those with this data directory and store, if a directory is given. Removes files of dead
    processes."""
    folder = servers_folder(environment)
    try:
        if not _private(folder):
            return []
        names = sorted({entry.name.partition(".")[0] for entry in os.scandir(folder)})
    except OSError:
        return []
    found = []
    for name in names:
        entry = folder / name
        server = _read(entry.with_suffix(".json"))
        if not _held(entry.with_suffix(".lock")):
            forget(entry)
        elif server is not None and (data is None or (server.data, server.store) == (str(data), store)):
            found.append(server)
    return sorted(found, key=lambda server: server.started, reverse=True)


def forget(entry: Path) -> None:
    """Remove the files of a server that has ended; the lock is last, so that an interrupted removal is repeated."""
    for suffix in (".json", ".draft"):
        if (server := _read(entry.with_suffix(suffix))) is not None:
            socket_folder.remove(Path(server.socket).parent)
    for suffix in (".json", ".draft", ".sock", ".lock"):
        with suppress(OSError):
            entry.with_suffix(suffix).unlink(missing_ok=True)


def _private(folder: Path) -> bool:
    """Whether only this user can create files there; corrects the mode of our own folder."""
    status = close_to_others(folder)
    return status is not None and status.st_uid == os.getuid()


def _read(path: Path) -> RunningServer | None:
    try:
        return decoder(RunningServer).decode(path.read_bytes())  # type: ignore[no-any-return]
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _held(path: Path) -> bool:
    """Tries a shared lock, so that two clients that check at the same time do not see each other as the server."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
