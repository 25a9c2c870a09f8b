"""Listening: a direct connection that hears of other nodes' commits, tells them of ours, and holds the node's lock.

Invariants
- A notification says only that it is time to look. Lost, late and doubled ones cost time, never an event: `version`
  changes once a second without any.
- Ours are sent after the commit, on this connection, many commits in one.
- The lock lives exactly as long as the connection. After a reconnect it is taken again, and `held_since` says when."""

from __future__ import annotations

import logging
import os
import random
import select
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from psycopg import Error

from holdfast.core.database.errors import StorageError, StoragePooled, StorageUnavailable
from holdfast.core.database.postgres.address import LISTENING
from holdfast.core.database.postgres.connection import Connection, open_connection
from holdfast.core.database.postgres.errors import ConnectionLost, StatementFailed
from holdfast.core.database.postgres.statement import Compiled, encode

if TYPE_CHECKING:
    from holdfast.core.database.postgres.address import Address

NOTIFY_SECONDS = 0.005
"""Commits within this time are told of together."""
LOOK_SECONDS = 1.0
"""Without notifications it is time to look this often."""
FIRST_DELAY, LAST_DELAY = 0.05, 2.0
REQUEST_SECONDS = 10.0
CLOSE_SECONDS = 1.0

NOTIFY = Compiled("select pg_notify($1, '')")
LOCK = Compiled("select pg_try_advisory_lock($1::bigint)")
UNLOCK = Compiled("select pg_advisory_unlock($1::bigint)")

log = logging.getLogger(__name__)


class Listener:
    """A thread with a connection. It connects when it is first needed, and again whenever that is lost."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.connected_since: float | None = None
        """Since when the connection has been there (monotonic seconds)."""
        self.lost = False
        """Whether there was another one before. A node that has connected again cannot tell at once whether others are
        gone, or have yet to connect again, too."""
        self._channel = f"holdfast_{address.schema or ''}"
        self._heard = 0
        self._dirty = False
        self._notified = 0.0
        self._numbers: set[int] = set()
        self._held: set[int] = set()
        self._closed = False
        self._error: StorageUnavailable | None = None
        """Why there is no connection."""
        self._connection: Connection | None = None
        self._changed = threading.Condition()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._thread = threading.Thread(target=self._work, name="holdfast-listener", daemon=True)
        self._thread.start()

    def version(self) -> int:
        """A number that changes when any node may have committed."""
        return (self._heard << 32) + int(time.monotonic() / LOOK_SECONDS)

    def committed(self) -> None:
        """This process has committed something. Called by writers."""
        self._heard += 1
        if not self._dirty:
            self._dirty = True
            self._wake()

    def hold(self, number: int, timeout: float = REQUEST_SECONDS) -> None:
        """Take the lock of a node, and keep it across reconnects. Blocks. Raises StorageError if another has it, or if
        there is no connection in time."""
        with self._changed:
            self._numbers.add(number)
            self._wake()
            if not self._changed.wait_for(lambda: self._is_decided(number), timeout) or self._hopeless():
                self._numbers.discard(number)
                raise self._error or StorageUnavailable(self.address.name, "no connection that may hold a lock")
            if number not in self._held:
                raise StorageError(f"the number {number} belongs to another node")

    def _is_decided(self, number: int) -> bool:
        return number in self._held or number not in self._numbers or self._hopeless()

    def _hopeless(self) -> bool:
        """Whether no connection of this address can ever hold a lock."""
        return isinstance(self._error, StoragePooled)

    def release(self, number: int) -> None:
        with self._changed:
            self._numbers.discard(number)
        self._wake()

    def holds(self, number: int) -> bool:
        return number in self._held

    def lock_key(self, number: int) -> int:
        """The key of a node's lock: `pg_locks` shows it as `classid` and `objid`, with `objsubid` 1. The number itself:
        it has 64 bits, and no two processes have the same, whichever schema they use."""
        return number

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._wake()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive() and (connection := self._connection) is not None:
            connection.break_off()
            self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _wake(self) -> None:
        with suppress(BlockingIOError, OSError):
            os.write(self._wake_write, b".")

    def _work(self) -> None:
        delay = FIRST_DELAY
        while not self._closed:
            try:
                self._listen()
                delay = FIRST_DELAY
                while not self._closed:
                    self._turn()
            except (ConnectionLost, StorageUnavailable, StatementFailed, TimeoutError, Error) as error:
                self._lose(error)
                self._pause(random.uniform(delay / 2, delay))
                delay = min(delay * 2, LAST_DELAY)
            except Exception:
                log.exception("listening to %s", self.address.name)
                self._lose(None)
                self._pause(LAST_DELAY)
        if self._connection is not None:
            if self._dirty:
                with suppress(ConnectionLost, StatementFailed, TimeoutError):
                    self._tell(self._connection)
            self._connection.close()

    def _listen(self) -> None:
        connection = self._connection = open_connection(self.address, LISTENING, direct=True)
        connection.run([(Compiled(f'listen "{self._channel}"'), ())], REQUEST_SECONDS)
        self.connected_since = time.monotonic()
        self._error = None
        self._heard += 1

    def _hear(self, notification: object) -> None:
        if self._connection is None or getattr(notification, "be_pid", 0) != self._connection.pgconn.backend_pid:
            self._heard += 1

    def _turn(self) -> None:
        """Do what is to be done, then wait for something."""
        connection = self._connection
        assert connection is not None
        self._update_locks(connection)
        wait: float | None = None
        if self._dirty:
            wait = self._notified + NOTIFY_SECONDS - time.monotonic()
            if wait <= 0:
                self._tell(connection)
                wait = None
        ready, _, _ = select.select([connection.pgconn.socket, self._wake_read], [], [], wait)
        if self._wake_read in ready:
            with suppress(BlockingIOError):
                os.read(self._wake_read, 4096)
        if connection.pgconn.socket in ready:
            connection.consume()
            self._take_notifications(connection)

    def _tell(self, connection: Connection) -> None:
        self._dirty = False
        self._notified = time.monotonic()
        connection.run([(NOTIFY, (encode(self._channel),))], REQUEST_SECONDS)
        self._take_notifications(connection)

    def _take_notifications(self, connection: Connection) -> None:
        while (notification := connection.pgconn.notifies()) is not None:
            self._hear(notification)

    def _update_locks(self, connection: Connection) -> None:
        with self._changed:
            wanted = set(self._numbers)
        for number in wanted - self._held:
            (result,) = connection.run([(LOCK, (encode(self.lock_key(number)),))], REQUEST_SECONDS)
            with self._changed:
                if result.get_value(0, 0) == b"t":
                    self._held.add(number)
                else:
                    self._numbers.discard(number)
                self._changed.notify_all()
        for number in self._held - wanted:
            connection.run([(UNLOCK, (encode(self.lock_key(number)),))], REQUEST_SECONDS)
            with self._changed:
                self._held.discard(number)

    def _lose(self, error: Exception | None) -> None:
        if self.connected_since is not None:
            self.lost = True
            log.info("%s: the listening connection was lost: %s", self.address.name, error)
        self.connected_since = None
        with self._changed:
            if isinstance(error, StorageUnavailable):
                self._error = error
                self._changed.notify_all()
            self._held.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _pause(self, seconds: float) -> None:
        select.select([self._wake_read], [], [], seconds if not self._closed else 0)
        time.sleep(0 if self._closed else min(seconds, 0.02))
        with suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
