"""Commits for a Session that is being executed: the part of a drain's lease that other packages need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.database.unit import Committed, Statement
    from holdfast.schema.record import Record


class Publisher(Protocol):
    async def publish(
        self, *payloads: Record, before: Sequence[Statement] = (), local: Sequence[Statement] = ()
    ) -> Committed:
        """Make one fenced commit. Without payloads it has only the local writes."""
