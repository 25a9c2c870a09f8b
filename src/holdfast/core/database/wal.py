"""Room in the write-ahead log. Syncing a file that grows costs its file system a journal entry each time; syncing bytes
that were written before does not, and takes half as long."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME = 4096 + 24
BLOCK = 64 * 1024


def make_room(connection: apsw.Connection, path: str, frames: int) -> None:
    """Let the log have its usual size before anyone needs it. What lies after the last valid frame is ignored by every
    reader and by recovery, and whoever writes frames holds the lock that is taken here."""
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
        os.ftruncate(log, size)  # the disk is full: this room is the last thing it is needed for
        raise
