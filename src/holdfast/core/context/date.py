"""`core/date`: today, as a calendar on the wall would say it."""

from __future__ import annotations

import logging
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

log = logging.getLogger(__name__)


def date(clock: Clock, zone: tzinfo | None = None) -> SystemContext:
    """Without a zone, the host's own."""
    return make(
        Source(
            key=KEY,
            codec=_CODEC,
            load=lambda: calendar_day(clock.now(), zone),
            baseline=BASELINE.format,
            update=lambda _, current: UPDATE.format(current),
        )
    )


def calendar_day(millis: int, zone: tzinfo | None) -> str:
    """`Wed Jun 03 2026`, whatever the process's locale."""
    now = datetime.fromtimestamp(millis / 1000, zone)
    return f"{DAYS[now.weekday()]} {MONTHS[now.month - 1]} {now.day:02} {now.year}"


def find_zone(name: str | None) -> tzinfo | None:
    """The zone of an IANA name; for one that does not exist the host's, and a diagnostic."""
    if name is None:
        return None
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        log.warning("timezone %r is unknown; using the host's", name)
        return None
