"""What the event log refuses.

InvalidDurableEvent   an event that does not fit its definition, its aggregate, its place or its owner
SubscriberOverflow    a live subscriber fell behind its buffer
"""

from __future__ import annotations

from holdfast.core.database.errors import InvalidDurableEvent as InvalidDurableEvent
from holdfast.schema.exceptions import HoldfastError


class SubscriberOverflow(HoldfastError):
    """A live subscriber fell behind and was ended."""

    code = "EventV2.SubscriberOverflow"

    def __init__(self, capacity: int) -> None:
        super().__init__(f"the subscriber fell more than {capacity} events or 32 MiB behind; subscribe again")
        self.capacity = capacity
