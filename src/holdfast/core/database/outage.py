"""A database that does not answer, as status displays tell of it."""

from __future__ import annotations

from typing import NamedTuple

LOST_SECONDS = 1.0
"""A database counts as lost after this long: processes that share a file wait for each other now and then."""


class Outage(NamedTuple):
    seconds: float
    """For how long."""
    reason: str
    """Names the database, without its password."""

    @property
    def is_loss(self) -> bool:
        return self.seconds >= LOST_SECONDS
