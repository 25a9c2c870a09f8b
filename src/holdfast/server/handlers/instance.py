"""Handlers of the health and location operations in `protocol/instance.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.protocol.instance import Health

if TYPE_CHECKING:
    from holdfast.schema.location import LocationInfo
    from holdfast.server.types import ApiCall


async def health(call: ApiCall) -> Health:
    return Health(healthy=True)


async def location(call: ApiCall) -> LocationInfo:
    assert call.location is not None
    return await call.runtime.location_info(call.location)
