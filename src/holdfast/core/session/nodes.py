"""The processes on one database, as rows that they write about themselves. A process that serves is a node.

Invariants
- A node reports with every heartbeat all that it says about itself, so a row that somebody removed by mistake is back a
  moment later.
- What a row says is a hint about where work goes. Who may execute a Session is decided by leases alone."""

from __future__ import annotations

import asyncio
import logging
import os
from hashlib import blake2b
from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Unit
from holdfast.core.session.roots import have, label_of, serve
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.session.liveness import Liveness
    from holdfast.core.session.ownership import Ownership

IDLE_BEAT_SECONDS = 5.0

log = logging.getLogger(__name__)


class NodeInfo(Frozen):
    """What a process that serves says about itself."""

    name: str
    address: str | None = None
    """Where other nodes reach it."""
    roots: tuple[str, ...] | None = None
    """The directories whose Sessions it executes, as in `roots.py`; None: all without a label that exist there."""


class Owner(Frozen):
    """A process with a row. The fields after `holds` are empty for one that does not serve."""

    id: str
    pid: int
    age: int
    """How long ago it reported, in milliseconds."""
    beat: int
    """When it reported, by its clock or that of the database."""
    locked: int | None
    """For `Liveness`."""
    serves: bool
    holds: bool
    """Whether it holds leases."""
    name: str | None
    address: str | None
    version: str | None
    started: int | None
    roots: tuple[str, ...] | None
    room: int | None
    """How many Sessions more it executes; None: without a limit."""

    @property
    def described(self) -> str:
        return f"the server {self.name} at {self.address}" if self.address else f"the server {self.name}"

    def may_serve(self, location: Location) -> bool:
        """Whether it is not known to leave Sessions of the Location to others."""
        return label_of(location) is None if self.roots is None else serve(self.roots, location)

    def may_have(self, directory: str, workspace_id: str | None) -> bool:
        """Whether it may have the directory: with the label that the workspace names, or with any."""
        location = Location(directory=directory, workspace_id=workspace_id)
        if self.roots is None or label_of(location) is not None:
            return self.may_serve(location)
        return have(self.roots, directory)


class Nodes:
    def __init__(self, database: Database, ownership: Ownership, liveness: Liveness, clock: Clock) -> None:
        self._database = database
        self._ownership = ownership
        self._liveness = liveness
        self._clock = clock
        self._about: NodeInfo | None = None
        self._started = 0
        self._beating: asyncio.Task[None] | None = None
        self.room: Callable[[], int | None] = lambda: None
        """How many Sessions more this process executes."""

    @property
    def id(self) -> str:
        return self._ownership.id

    @property
    def announced(self) -> bool:
        return self._about is not None

    async def announce(self, about: NodeInfo) -> None:
        """Others see this process as a node from now on."""
        self._about, self._started = about, self._clock.now()
        await self._ownership.hold()
        self._ownership.report = self._report
        self._ownership.became_idle = self._tell_room
        await self.report()
        same = [owner for owner in await self.living() if owner.name == about.name and owner.id != self.id]
        if same:
            other = f"process {same[0].pid}" + (f" at {same[0].address}" if same[0].address else "")
            log.warning("another server is called %s too: %s. --node-name gives each its own name", about.name, other)
        if self._liveness.beats_idle:
            self._beating = asyncio.get_running_loop().create_task(self._beat(), name="holdfast-node")

    async def report(self) -> None:
        await self._database.submit(Unit(self.id, local=(self._report(),)))

    def _tell_room(self) -> None:
        """An idle process need not report, so it says now that it has room again."""
        if self.room() is not None:
            self._database.submit(Unit(self.id, local=(self._report(),)))

    async def close(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait({self._beating})

    async def all(self) -> list[Owner]:
        """Every process with a row, this one included."""
        return await self._database.fetch("owner.all", {"now": self._clock.now()}, into=Owner)

    async def living(self) -> list[Owner]:
        """The nodes that live, this one included."""
        return [owner for owner in await self.all() if owner.serves and self.lives(owner)]

    async def others(self) -> list[Owner]:
        """The other nodes that live."""
        return [node for node in await self.living() if node.id != self.id]

    async def of_tag(self, id: str) -> Owner | None:
        """The other node that made an id with its tag, if it lives."""
        if id.endswith(node_tag(self.id)):
            return None
        return next((node for node in await self.others() if id.endswith(node_tag(node.id))), None)

    async def described_by_tag(self, id: str) -> str | None:
        """The name and address of the other node that made an id with its tag, if it lives."""
        node = await self.of_tag(id)
        return None if node is None else node.described

    def ended(self, owner: Owner) -> bool:
        """Whether the process is dead."""
        return owner.id != self.id and not self._liveness.lives(owner.id, owner.locked)

    def lives(self, owner: Owner) -> bool:
        """Whether the process is neither dead nor stopped. One that has nothing to do may report nothing."""
        if self.ended(owner):
            return False
        reports = owner.holds or self._liveness.beats_idle
        stopped = self._ownership.heartbeats.stopped
        return owner.id == self.id or not reports or not stopped(owner.id, owner.beat, owner.age)

    async def remove(self, owner_ids: Iterable[str]) -> None:
        """Remove the rows of dead processes. Their leases become free."""
        for id in owner_ids:
            key = {"id": id}
            removal = tuple(Statement(name, key) for name in ("owner.drop_leases", "control.forget", "owner.forget"))
            await self._database.submit(Unit(id, local=removal))

    def _report(self) -> Statement:
        about = self._about
        assert about is not None
        return Statement(
            "owner.announce",
            {
                "id": self.id,
                "pid": os.getpid(),
                "beat": self._clock.now(),
                "number": self._liveness.number(self.id),
                "name": about.name,
                "address": about.address,
                "version": __version__,
                "started": self._started,
                "roots": None if about.roots is None else encode(about.roots).decode(),
                "room": self.room(),
            },
        )

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(IDLE_BEAT_SECONDS)
            self._database.submit(Unit(self.id, local=(self._report(),)))


def node_tag(node_id: str) -> str:
    """How the ids of what lives in the memory of one process end, so that others can tell whose it is."""
    return blake2b(node_id.encode(), digest_size=3).hexdigest()


def rank(node_id: str, node_ids: Collection[str], session_id: str) -> int:
    """The place of a node among others for one Session. Every node computes the same, and Sessions spread evenly."""

    def weight(id: str) -> bytes:
        return blake2b(f"{id} {session_id}".encode(), digest_size=8).digest()

    return sorted({*node_ids, node_id}, key=weight).index(node_id)
