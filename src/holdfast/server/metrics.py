"""`GET /metrics`: what this process counts, as Prometheus reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.observe.families import Family, rendered
from holdfast.server.types import HttpReply

if TYPE_CHECKING:
    from holdfast.core.runtime.runtime import Runtime

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FOLLOWERS = Family("holdfast_followers", "gauge", "Event streams that clients have open.")


async def metrics_reply(runtime: Runtime, followers: int) -> HttpReply:
    gauges = await runtime.gauges.read()
    found = [*gauges, (FOLLOWERS, [FOLLOWERS.sample(followers)]), *runtime.observer.counters.read()]
    headers = [(b"cache-control", b"no-store")]
    return HttpReply(200, rendered(found).encode(), CONTENT_TYPE, headers)
