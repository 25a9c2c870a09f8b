"""Answers the location operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.schema.location import LocationInfo
    from holdfast.server.types import Call


async def get(call: Call) -> LocationInfo:
    assert call.location is not None
    return await call.runtime.location_info(call.location)
