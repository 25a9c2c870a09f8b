"""Preallocates the write-ahead log. Syncing a file that grows costs the file system a journal entry each time; syncing
bytes that exist does not, and takes half as long."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME = 4096 + 24
BLOCK = 64 * 1024


def preallocate(connection: apsw.Connection, path: str, frames: int) -> None:
    """Extend the log to its usual size. Readers and recovery ignore what follows the last valid frame. This holds the
    write lock, so that no process writes frames meanwhile."""
    with suppress(apsw.Error, OSError), _writing(connection):
        log = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)
        try:
            _extend(log, os.fstat(log).st_size, frames * FRAME)
        finally:
            os.close(log)


@contextmanager
def _writing(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("begin immediate")
    try:
        yield
    finally:
        connection.execute("rollback")


def _extend(log: int, size: int, wanted: int) -> None:
    try:
        for offset in range(size, wanted, BLOCK):
            os.pwrite(log, bytes(min(BLOCK, wanted - offset)), offset)
        os.fsync(log)
    except OSError:
        os.ftruncate(log, size)  # disk full: release the preallocated space
        raise
