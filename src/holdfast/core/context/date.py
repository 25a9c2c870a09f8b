"""`core/date`: the current calendar day."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from holdfast.core.context.source import JsonCodec, Source
from holdfast.core.context.system_context import make

if TYPE_CHECKING:
    from holdfast.core.clock import Clock
    from holdfast.core.context.system_context import SystemContext

KEY = "core/date"
BASELINE = "Today's date is {}."
UPDATE = "Today's date is now {}."

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_CODEC = JsonCodec(str)


def date(clock: Clock, zone: tzinfo | None = None) -> SystemContext:
    """Without a zone, the host's own is used."""

    async def load() -> str:
        return calendar_day(clock.now(), zone)

    return make(
        Source(
            key=KEY,
            codec=_CODEC,
            load=load,
            baseline=BASELINE.format,
            update=lambda _, current: UPDATE.format(current),
            immediate=True,
        )
    )


def calendar_day(millis: int, zone: tzinfo | None) -> str:
    """For example `Wed Jun 03 2026`, in any locale."""
    now = datetime.fromtimestamp(millis / 1000, zone)
    return f"{DAYS[now.weekday()]} {MONTHS[now.month - 1]} {now.day:02} {now.year}"


def find_zone(name: str | None) -> tzinfo | None:
    """Return the zone of an IANA name, or None, which means the host's zone, if there is no such zone."""
    if name is None:
        return None
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
