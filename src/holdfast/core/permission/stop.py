"""A person said no. That is no result of a tool: the turn stops, and the model is not asked again."""

from __future__ import annotations


class Stopped(Exception):
    """Raised through a tool by what asks people; nothing may turn it into a tool failure."""
