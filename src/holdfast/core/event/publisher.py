"""Who records for a Session while it is executed: the lease of a drain, as far as others need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.database.unit import Committed, Statement
    from holdfast.schema.location import Location
    from holdfast.schema.record import Record


class Publisher(Protocol):
    async def publish(
        self,
        *payloads: Record,
        location: Location,
        before: Sequence[Statement] = (),
        local: Sequence[Statement] = (),
    ) -> Committed:
        """One fenced commit. Without payloads it consists of the local writes."""
