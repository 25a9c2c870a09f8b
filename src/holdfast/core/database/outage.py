"""A database that does not answer, as status displays tell of it."""

from __future__ import annotations

from typing import NamedTuple


class Outage(NamedTuple):
    seconds: float
    """For how long."""
    reason: str
    """Names the database, without its password."""
