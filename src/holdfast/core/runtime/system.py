"""The state of the server: the store, the processes on it, what they execute, and what Sessions wait for."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from holdfast.core.database.info import store_info
from holdfast.schema.frozen import Frozen
from holdfast.schema.overview import DrainInfo, ProcessInfo, SystemInfo
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.database.place import Place
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.core.runtime.overview import Overview
    from holdfast.core.session.nodes import Nodes, Owner
    from holdfast.schema.overview import SessionWait

MOST_DRAINS = 1000


class System:
    def __init__(
        self,
        database: Database,
        place: Place,
        nodes: Nodes,
        overview: Overview,
        locations: ServiceMap[LocationServices],
        clock: Clock,
    ) -> None:
        self._database = database
        self._place = place
        self._nodes = nodes
        self._overview = overview
        self._locations = locations
        self._clock = clock
        self._started = clock.now()

    async def info(self) -> SystemInfo:
        leases = await self._database.fetch_large("overview.drains", {"limit": MOST_DRAINS}, into=_Lease)
        processes = tuple(self._processes(await self._nodes.all(), Counter(lease.owner_id for lease in leases)))
        living = {process.id for process in processes if process.state != "gone"}
        waits = await self._overview.waits()
        return SystemInfo(
            version=__version__,
            started=self._started,
            now=self._clock.now(),
            store=await store_info(self._database, self._place),
            processes=processes,
            drains=tuple(lease.drain(waits) for lease in leases if lease.owner_id in living),
            waits=tuple(waits),
            locations=tuple(sorted({location.directory for location in self._locations.opened()})),
        )

    def _processes(self, owners: list[Owner], leases: Counter[str]) -> Iterator[ProcessInfo]:
        """This one first. It has no row before it serves or executes something."""
        now, own = self._clock.now(), next((owner for owner in owners if owner.id == self._nodes.id), None)
        yield ProcessInfo(
            id=self._nodes.id,
            pid=os.getpid(),
            state="here",
            serves=self._nodes.announced,
            name=own.name if own is not None else None,
            address=own.address if own is not None else None,
            version=__version__,
            started=self._started,
            reported=now,
            sessions=leases[self._nodes.id],
            room=self._nodes.room(),
        )
        for owner in owners:
            if owner is own:
                continue
            yield ProcessInfo(
                id=owner.id,
                pid=owner.pid,
                state="alive" if self._nodes.lives(owner) else "gone",
                serves=owner.serves,
                name=owner.name,
                address=owner.address,
                version=owner.version,
                started=owner.started,
                reported=now - owner.age,
                sessions=leases[owner.id],
                room=owner.room,
            )


class _Lease(Frozen):
    session_id: str
    owner_id: str
    title: str
    since: int | None

    def drain(self, waits: list[SessionWait]) -> DrainInfo:
        return DrainInfo(
            session_id=self.session_id,
            title=self.title,
            owner_id=self.owner_id,
            since=self.since,
            waits=tuple(found.wait for found in waits if found.session_id == self.session_id),
        )
