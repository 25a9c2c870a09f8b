"""`GET /metrics`: what this process counts, as Prometheus reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.observe.families import Family, rendered
from holdfast.server.types import HttpReply

if TYPE_CHECKING:
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.server.disk_floor import DiskFloor

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FREE = Family("holdfast_disk_free_bytes", "gauge", "Free space on the disk of the data directory.")
FLOOR = Family("holdfast_disk_floor_bytes", "gauge", "With less free space new input is refused; 0: never.")
FOLLOWERS = Family("holdfast_followers", "gauge", "Event streams that clients have open.")


async def metrics_reply(runtime: Runtime, disk: DiskFloor, followers: int) -> HttpReply:
    gauges = await runtime.gauges.read()
    space = await disk.space()
    own = ((FOLLOWERS, followers), (FREE, space.free), (FLOOR, space.floor))
    found = [*gauges, *((family, [family.sample(value)]) for family, value in own), *runtime.observer.counters.read()]
    headers = [(b"cache-control", b"no-store")]
    return HttpReply(200, rendered(found).encode(), CONTENT_TYPE, headers)
