"""What isolated copies need to know about the Sessions that work in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.session.store import SessionStore
    from holdfast.core.snapshot.copy_record import CopyFolder


class CopyUse(Frozen):
    state: Literal["working", "idle", "deleted", "unknown"]
    """`unknown`: there is and was no such Session, and no task for one."""
    updated: int = 0
    """When the Session changed last, in milliseconds."""


class CopySessions:
    def __init__(self, database: Database, store: SessionStore, folder: CopyFolder) -> None:
        self._database = database
        self._store = store
        self._folder = folder

    async def exists(self, session_id: str) -> bool:
        return await self._store.find(session_id) is not None

    async def use(self, session_id: str) -> CopyUse:
        session = await self._store.find(session_id)
        if session is not None:
            working = await self.works(session_id) or bool(await self._store.awaited_tasks(session_id))
            return CopyUse("working" if working else "idle", int(session.time.updated))
        if await self._database.fetch("event.any_of", {"aggregate_id": session_id}):
            return CopyUse("deleted")
        if await self._database.fetch("task.any_for", {"child_id": session_id}):
            return CopyUse("working")  # its call is executed again
        return CopyUse("unknown")

    async def works(self, session_id: str) -> bool:
        """Whether it owes something, or another Session that works in its copy, such as a child or a fork."""
        directory: Value = str(self._folder.directory(session_id))
        if await self._database.fetch("task.any_active_below", {"directory": directory}):
            return True
        return bool(await self._database.fetch("task.any_unfinished", {"session_id": session_id}))
