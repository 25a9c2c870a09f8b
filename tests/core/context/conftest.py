"""Sources under a test's control, and a Session whose epochs are really stored."""

from __future__ import annotations

import asyncio
import inspect
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ManualClock
from tests.core.context.places import Place
from tests.core.database.conftest import FaultyDisk
from tests.core.event.samples import ENSURE_PROJECT, SES, raw, record
from tests.stores.stores import OpenedDatabase

from holdfast.core.clock import Ids
from holdfast.core.context.epoch import Epoch, Epochs
from holdfast.core.context.metrics import Metrics
from holdfast.core.context.source import UNAVAILABLE, JsonCodec, Source
from holdfast.core.context.system_context import Observed, SystemContext, combine, make
from holdfast.core.database.unit import Committed, Statement
from holdfast.core.event.log import EventLog
from holdfast.core.session.interrupt import Interrupt
from holdfast.core.session.liveness import FileLiveness
from holdfast.core.session.ownership import Lease, Ownership
from holdfast.schema.location import Location
from holdfast.schema.record import Record
from holdfast.schema.session_event import SessionCreated

HERE = Location(directory="/w/here")
ANYTHING: JsonCodec[Any] = JsonCodec(object)


class Fact:
    """A source whose value a test sets. It counts how often it was observed, and what it was asked to render."""

    def __init__(
        self, key: str, value: Any = "v0", *, removable: bool = True, optional: bool = False, codec: Any = ANYTHING
    ) -> None:
        self.key = key
        self.value = value
        self.removable = removable
        self.optional = optional
        self.codec = codec
        self.loads = 0
        self.rendered: list[str] = []

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]

    def source(self) -> Source[Any]:
        return Source(
            key=self.key,
            codec=self.codec,
            load=self._load,
            baseline=self._baseline,
            update=self._update,
            removed=self._removed if self.removable else None,
            optional=self.optional,
        )

    def context(self) -> SystemContext:
        return make(self.source())

    def lose(self) -> None:
        self.value = UNAVAILABLE

    async def _load(self) -> Any:
        self.loads += 1
        return await self.value if inspect.isawaitable(self.value) else self.value

    def _baseline(self, current: Any) -> str:
        self.rendered.append("baseline")
        return f"{self.name} is {current}"

    def _update(self, previous: Any, current: Any) -> str:
        self.rendered.append("update")
        return f"{self.name} is now {current}"

    def _removed(self, previous: Any) -> str:
        self.rendered.append("removed")
        return f"Removed {self.name}"


def of(*facts: Fact) -> SystemContext:
    return combine(fact.context() for fact in facts)


def seen(*facts: Fact) -> tuple[Observed, ...]:
    """An observation of these facts as they are."""
    return tuple(Observed(fact.source(), fact.value) for fact in facts)


class CountingLease(Lease):
    """A real lease that counts its commits."""

    commits = 0

    async def publish(
        self, *payloads: Record, before: Sequence[Statement] = (), local: Sequence[Statement] = ()
    ) -> Committed:
        self.commits += 1
        return await super().publish(*payloads, before=before, local=local)


class Drained:
    """One Session with its epochs, as a drain uses them."""

    def __init__(self, database: OpenedDatabase, log: EventLog, epochs: Epochs, lease: CountingLease) -> None:
        self.database = database
        self.log = log
        self.epochs = epochs
        self.lease = lease
        self.metrics = epochs.metrics

    async def initialize(self, *facts: Fact) -> Epoch:
        return await self.epochs.initialize(SES, of(*facts), self.lease)

    async def prepare(self, epoch: Epoch, *facts: Fact, compaction_seq: int = -1) -> Epoch:
        return await self.epochs.prepare(epoch, of(*facts), self.lease, compaction_seq=compaction_seq)

    async def load(self) -> Epoch:
        epoch = await self.epochs.load(SES)
        assert epoch is not None
        return epoch

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return raw(self.database.path, sql, parameters)

    def told(self) -> list[str]:
        """What the system messages of the Session say, oldest first."""
        return [
            str(row[0])
            for row in self.rows(
                "select json_extract(data, '$.text') from session_message where type = 'system' order by seq"
            )
        ]


@pytest.fixture
def place() -> Iterator[Place]:
    """Not below pytest's own directory, which nobody but its owner may enter: some tests need another user."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Place(Path(folder))


@pytest.fixture
def disk(synced_commits: None) -> Iterator[FaultyDisk]:
    """A disk that fails when told to; databases opened after it use it."""
    disk = FaultyDisk()
    yield disk
    disk.heal()
    disk.unregister()


async def steps(count: int) -> None:
    """Let the loop turn that often."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


async def open_lease(ownership: Ownership, log: EventLog, session_id: str) -> CountingLease:
    async def wanted() -> bool:
        return True

    real = await ownership.acquire(session_id, HERE, Interrupt(), wanted)
    assert real is not None
    return CountingLease(log, HERE, real.fence, real._take)


@pytest.fixture
async def ownership(
    database: OpenedDatabase, log: EventLog, ids: Ids, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[Ownership]:
    ownership = Ownership(database, log, ids, clock, FileLiveness(tmp_path / "owners"))
    yield ownership
    await ownership.close()


@pytest.fixture
async def drained(
    database: OpenedDatabase, log: EventLog, ids: Ids, clock: ManualClock, metrics: Metrics, ownership: Ownership
) -> Drained:
    await log.publish(SessionCreated(session_id=SES, info=record(SES)), before=[ENSURE_PROJECT])
    lease = await open_lease(ownership, log, SES)
    return Drained(database, log, Epochs(database, ids, clock, metrics), lease)
