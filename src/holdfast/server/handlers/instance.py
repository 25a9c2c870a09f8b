"""Handlers of the health and location operations in `protocol/instance.py`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.protocol.instance import Health, StorageWait

if TYPE_CHECKING:
    from holdfast.schema.location import LocationInfo
    from holdfast.server.types import ApiCall


async def health(call: ApiCall) -> Health:
    outage = call.runtime.database.outage()
    if outage is None:
        return Health(healthy=True)
    since = int((time.time() - outage.seconds) * 1000)
    return Health(healthy=True, storage=StorageWait(since=since, reason=outage.reason))


async def location(call: ApiCall) -> LocationInfo:
    assert call.location is not None
    return await call.runtime.location_info(call.location)
