"""What a page gets whole when it has changed: the state of the followed Session, the open work, the open requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.runtime.overview import OverviewFilter
from holdfast.core.session.stored_trees import StoredTrees
from holdfast.schema.view import Requests, Status, TreeUse
from holdfast.server.web.frames import Overview, framed

if TYPE_CHECKING:
    from holdfast.core.runtime.runtime import Runtime

BELOW = 500
"""Sessions below the followed one whose waits are read."""


class State:
    """Each method returns a frame, or nothing if it would be the same as the one before."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._sent: dict[str, bytes] = {}

    async def status(self, session_id: str) -> bytes:
        runtime = self._runtime
        if (session := await runtime.store.find(session_id)) is None:
            return b""
        usage = await StoredTrees(runtime.database).usage(session_id)
        told = await runtime.overview.one(session, [row.id for row in usage[:BELOW]])
        if told is None:
            return b""
        status = Status(
            session=told,
            pending=tuple(await runtime.store.all_pending(session_id)),
            todos=await runtime.todos.get(session_id),
            tree=TreeUse(sessions=len(usage), cost=sum(row.cost for row in usage)),
        )
        return self._new("status", framed(status))

    async def overview(self) -> bytes:
        sessions = await self._runtime.overview.open(OverviewFilter())
        return self._new("overview", framed(Overview(sessions=tuple(sessions))))

    async def requests(self, below: str | None = None) -> bytes:
        """Of all Sessions, or of one and those below it."""
        requests = await self._runtime.open_requests.list()
        if below is not None:
            requests = [one for one in requests if below == one.session_id or below in one.ancestors]
        return self._new("requests", framed(Requests(requests=tuple(requests))))

    def _new(self, name: str, frame: bytes) -> bytes:
        if self._sent.get(name) == frame:
            return b""
        self._sent[name] = frame
        return frame
