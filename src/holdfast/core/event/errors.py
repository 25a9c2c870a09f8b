"""The errors of the event log.

InvalidDurableEvent   an event does not fit its definition, aggregate, position or owner
SubscriberOverflow    a live subscriber fell behind its buffer
"""

from __future__ import annotations

from holdfast.core.database.errors import InvalidDurableEvent as InvalidDurableEvent
from holdfast.schema.exceptions import HoldfastError


class SubscriberOverflow(HoldfastError):
    """A live subscriber fell behind, and its subscription ended."""

    code = "EventV2.SubscriberOverflow"

    def __init__(self, capacity: int) -> None:
        super().__init__(f"the subscriber fell more than {capacity} events or 32 MiB behind; subscribe again")
        self.capacity = capacity
