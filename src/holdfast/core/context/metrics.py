"""Metrics of System Context and compaction: counts, sizes and durations by name and key, never texts or values."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from holdfast.schema.frozen import Frozen

SERIES_LIMIT = 1_000
SESSION_LIMIT = 1_000
OVERFLOW = "other"


class Series(NamedTuple):
    times: int = 0
    total: float = 0.0
    largest: float = 0.0

    def plus(self, value: float) -> Series:
        return Series(self.times + 1, self.total + value, max(self.largest, value))


class Growth(Frozen):
    """The updates of one Session since its baseline, and the outcome of its last boundary."""

    updates: int = 0
    bytes: int = 0
    outcome: str = ""


class Metrics:
    """In-process and bounded: keys beyond the limit are counted as `other`, and the least recent Session is dropped."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], Series] = {}
        self._sessions: OrderedDict[str, Growth] = OrderedDict()

    def record(self, name: str, value: float, key: str = "") -> None:
        place = (name, key)
        if place not in self._series and len(self._series) >= SERIES_LIMIT:
            place = (name, OVERFLOW)
        self._series[place] = self._series.get(place, Series()).plus(value)

    def began(self, session_id: str, outcome: str, baseline: str) -> None:
        """Record a new baseline."""
        self.record("context.baseline.bytes", len(baseline.encode()))
        self._keep(session_id, Growth(outcome=outcome))

    def updated(self, session_id: str, text: str) -> None:
        """Record an update message."""
        size = len(text.encode())
        before = self.of_session(session_id)
        growth = Growth(before.updates + 1, before.bytes + size, "updated")
        self.record("context.update.bytes", size)
        self.record("context.updates.count", growth.updates)
        self.record("context.updates.bytes", growth.bytes)
        self._keep(session_id, growth)

    def ended(self, session_id: str, outcome: str) -> None:
        """Record a boundary without a message."""
        growth = self._sessions.get(session_id)
        if growth is None or growth.outcome != outcome:
            self._keep(session_id, (growth or Growth()).replace(outcome=outcome))

    def of_session(self, session_id: str) -> Growth:
        return self._sessions.get(session_id, Growth())

    def read(self) -> dict[str, dict[str, dict[str, float]]]:
        """Series by name, then by key; the key is "" for values without one."""
        found: dict[str, dict[str, dict[str, float]]] = {}
        for (name, key), series in sorted(self._series.items()):
            found.setdefault(name, {})[key] = dict(series._asdict())
        return found

    def _keep(self, session_id: str, growth: Growth) -> None:
        self._sessions[session_id] = growth
        self._sessions.move_to_end(session_id)
        if len(self._sessions) > SESSION_LIMIT:
            self._sessions.popitem(last=False)
