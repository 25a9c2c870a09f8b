"""Finds who made a request to a person: the Session of the call, or a descendant of it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.core.location.services import LocationServices
    from holdfast.schema.session import Session
    from holdfast.server.types import ApiCall


@asynccontextmanager
async def asking(call: ApiCall) -> AsyncIterator[tuple[LocationServices, Session]]:
    """The services of the Session that made the open request which the call names, and the Session. A request that
    neither the Session nor a descendant made is looked for in the Session, which does not find it."""
    assert call.session is not None
    session = await call.runtime.store.asker(call.session.id, call.params.request_id) or call.session
    async with call.runtime.locations.use(session.location) as services:
        yield services, session
