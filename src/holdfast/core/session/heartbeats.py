"""Telling from heartbeats whether an owner was stopped: by a debugger, or with a suspended machine.

Invariants
- Clocks are believed only as a hint. An owner counts as stopped if its report is old by the clock and no newer one came
  while this process watched, by a clock that nobody sets. A step of either clock takes nothing from a living owner.
- Whether an owner has ended is told by its lock (`liveness.py`), at once and without any clock."""

from __future__ import annotations

from time import monotonic

from holdfast.schema.frozen import Frozen

EXPIRY_SECONDS = 30.0
"""A report is old after this time."""
WATCHED_SECONDS = 6.0
"""How long an old report has to stay the newest: longer than the time between two reports of an owner."""


class _Report(Frozen):
    beat: int
    since: float


class Heartbeats:
    """One per process."""

    def __init__(self) -> None:
        self._old: dict[str, _Report] = {}
        """Old reports, and since when this process has seen no newer one."""

    def stopped(self, owner_id: str, beat: int, age: int) -> bool:
        """Whether the owner reports no more. `beat` is when it reported last, and `age` how long ago that is by the
        clock of whoever asks, both in milliseconds."""
        if abs(age) < EXPIRY_SECONDS * 1000:
            self._old.pop(owner_id, None)
            return False
        known = self._old.get(owner_id)
        if known is None or known.beat != beat:
            self._old[owner_id] = known = _Report(beat, monotonic())
        return monotonic() - known.since >= WATCHED_SECONDS
