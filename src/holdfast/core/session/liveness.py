"""Which of the processes on one database live.

An owner is a process that takes leases. The form depends on the store: on one machine an owner holds a lock on a file,
on many machines a lock on the database server. Either lock ends with the process, however that ends."""

from __future__ import annotations

import fcntl
import os
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from holdfast.core.database.database import SqliteDatabase
from holdfast.private_files import make_directory

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.database.database import Database

SETTLING_SECONDS = 3.0
"""How long a process that lost its own lock on a database server, and has it again, judges nobody: whatever ended its
connection may have ended those of others, who have yet to connect."""


class Liveness(Protocol):
    def number(self, owner_id: str) -> int | None:
        """The lock that the database keeps for an owner, if it keeps one."""

    async def hold(self, owner_id: str) -> None:
        """From now on others see that this process lives."""

    def lives(self, owner_id: str, locked: int | None) -> bool:
        """Whether an owner has not ended. `locked` comes from the statement that read the owner: whether the database
        keeps its lock; None if it does not know."""

    async def release(self, owner_id: str) -> None:
        """Called when this process has nothing to own any more."""

    @property
    def beats_idle(self) -> bool:
        """Whether an owner reports regularly even while it executes nothing."""


def liveness_on(database: Database, folder: Path) -> Liveness:
    """The form that fits a store. `folder` is for locks of processes on this machine."""
    if isinstance(database, SqliteDatabase):
        return FileLiveness(folder)
    from holdfast.core.database.postgres.database import PostgresDatabase
    from holdfast.core.database.postgres.node_lock import NodeLock

    assert isinstance(database, PostgresDatabase)
    return ServerLiveness(NodeLock(database.listener))


class FileLiveness:
    """Locks on files in a folder, each named after an owner: for processes of one machine."""

    beats_idle = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: int | None = None

    def number(self, owner_id: str) -> int | None:
        return None

    async def hold(self, owner_id: str) -> None:
        if self._lock is None:
            make_directory(self._folder)
            self._lock = os.open(self._folder / owner_id, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def lives(self, owner_id: str, locked: int | None) -> bool:
        """A free lock was left by a process that ended; its file is removed."""
        path = self._folder / owner_id
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(handle)

    async def release(self, owner_id: str) -> None:
        if self._lock is not None:
            os.close(self._lock)
            (self._folder / owner_id).unlink(missing_ok=True)
            self._lock = None


class ServerLock(Protocol):
    """A lock on a database server that ends with the connection it was taken on."""

    async def hold(self, number: int) -> None:
        """Take the lock, now and after each reconnection. Returns when it is held."""

    async def release(self) -> None: ...

    def lost(self) -> float | None:
        """For how long it has been held again after it was lost, 0 while it is not back; None if it never was lost."""


class ServerLiveness:
    """Locks on the database server, each with the number of an owner: for processes of many machines."""

    beats_idle = True

    def __init__(self, lock: ServerLock) -> None:
        self._lock = lock

    def number(self, owner_id: str) -> int | None:
        """From the id, so that no two owners have the same."""
        return int.from_bytes(blake2b(owner_id.encode(), digest_size=8).digest(), "big", signed=True)

    async def hold(self, owner_id: str) -> None:
        number = self.number(owner_id)
        assert number is not None
        await self._lock.hold(number)

    def lives(self, owner_id: str, locked: int | None) -> bool:
        if locked != 0:  # the server cannot tell while it starts
            return True
        again = self._lock.lost()
        return again is not None and again < SETTLING_SECONDS

    async def release(self, owner_id: str) -> None:
        await self._lock.release()
