"""Handlers of the health and location operations in `protocol/instance.py`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.protocol.instance import DiskLow, Health, StorageWait

if TYPE_CHECKING:
    from holdfast.schema.location import LocationInfo
    from holdfast.server.types import ApiCall


async def health(call: ApiCall) -> Health:
    space = await call.disk.space() if call.disk is not None else None
    low = DiskLow(free=space.free, floor=space.floor) if space is not None and space.is_low else None
    outage = call.runtime.database.outage()
    if outage is None:
        return Health(healthy=True, disk=low)
    since = int((time.time() - outage.seconds) * 1000)
    return Health(healthy=True, storage=StorageWait(since=since, reason=outage.reason), disk=low)


async def location(call: ApiCall) -> LocationInfo:
    assert call.location is not None
    return await call.runtime.location_info(call.location)
