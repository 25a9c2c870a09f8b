"""`PostgresDatabase`: what `SqliteDatabase` is for a file, for a server."""

from __future__ import annotations

import hashlib
import time
from contextlib import ExitStack

from holdfast.core.database.outage import Outage
from holdfast.core.database.postgres.address import Address
from holdfast.core.database.postgres.listener import Listener
from holdfast.core.database.postgres.migrate import prepare
from holdfast.core.database.postgres.reader import Reader
from holdfast.core.database.postgres.statement import Statements, postgres_queries
from holdfast.core.database.postgres.writer import WRITERS, Writers


class PostgresDatabase:
    """One schema of a database, shared by any number of nodes. Each has a few writers, readers and a listener."""

    def __init__(self, url: str | Address, *, writers: int = WRITERS) -> None:
        self.address = url if isinstance(url, Address) else Address(url)
        self.name = self.address.name
        prepare(self.address)
        statements = Statements(postgres_queries())
        with ExitStack() as stack:
            self.listener = Listener(self.address)
            stack.callback(self.listener.close)
            self._reader = Reader(self.address, statements)
            stack.callback(self._reader.close)
            self._writers = Writers(self.address, statements, self.listener.committed, writers)
            stack.callback(self._writers.close)
            self._closing = stack.pop_all()
        self.submit = self._writers.submit
        self.fetch = self._reader.fetch
        self.fetch_many = self._reader.fetch_many
        self.fetch_large = self._reader.fetch_large
        self.fetch_large_many = self._reader.fetch_large_many
        self.version = self.listener.version
        self.waiting_since = self._writers.waiting_since
        self.queued = self._writers.queued

    def identity(self) -> str:
        return hashlib.blake2b((self.address.server or "").encode(), digest_size=4).hexdigest()

    def outage(self) -> Outage | None:
        if (known := self.address.outages.current()) is not None:
            return known
        since = self._writers.waiting_since()
        return None if since is None else Outage(time.monotonic() - since, f"{self.name} does not answer")

    def close(self) -> None:
        self._closing.close()
