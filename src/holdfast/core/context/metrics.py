"""What System Context and compaction did, in numbers: names, keys, sizes and durations, never a text or a value."""

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
    """What one Session was told since its baseline, and how its last boundary ended."""

    updates: int = 0
    bytes: int = 0
    outcome: str = ""


class Metrics:
    """In-process and bounded: further keys are counted together, the Session seen longest ago is forgotten."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], Series] = {}
        self._sessions: OrderedDict[str, Growth] = OrderedDict()

    def record(self, name: str, value: float, key: str = "") -> None:
        place = (name, key)
        if place not in self._series and len(self._series) >= SERIES_LIMIT:
            place = (name, OVERFLOW)
        self._series[place] = self._series.get(place, Series()).plus(value)

    def began(self, session_id: str, outcome: str, baseline: str) -> None:
        """A new baseline is in force."""
        self.record("context.baseline.bytes", len(baseline.encode()))
        self._keep(session_id, Growth(outcome=outcome))

    def updated(self, session_id: str, text: str) -> None:
        size = len(text.encode())
        grown = self.of_session(session_id)
        grown = Growth(grown.updates + 1, grown.bytes + size, "updated")
        self.record("context.update.bytes", size)
        self.record("context.updates.count", grown.updates)
        self.record("context.updates.bytes", grown.bytes)
        self._keep(session_id, grown)

    def ended(self, session_id: str, outcome: str) -> None:
        """A boundary that told the model nothing."""
        grown = self._sessions.get(session_id)
        if grown is None or grown.outcome != outcome:
            self._keep(session_id, (grown or Growth()).replace(outcome=outcome))

    def of_session(self, session_id: str) -> Growth:
        return self._sessions.get(session_id, Growth())

    def read(self) -> dict[str, dict[str, dict[str, float]]]:
        """By name, then by source key, with "" for what belongs to no source."""
        found: dict[str, dict[str, dict[str, float]]] = {}
        for (name, key), series in sorted(self._series.items()):
            found.setdefault(name, {})[key] = dict(series._asdict())
        return found

    def _keep(self, session_id: str, growth: Growth) -> None:
        self._sessions[session_id] = growth
        self._sessions.move_to_end(session_id)
        if len(self._sessions) > SESSION_LIMIT:
            self._sessions.popitem(last=False)
