"""Handlers of `protocol/retention.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.schema.retention import PurgeReport
    from holdfast.schema.session import Session
    from holdfast.server.types import ApiCall


async def pin(call: ApiCall) -> Session:
    return await call.runtime.sessions.pin(call.params.session_id, pinned=call.payload.pinned is not False)


async def purge(call: ApiCall) -> PurgeReport:
    return await call.runtime.sessions.purge(call.payload.sessions)
