"""Takes over events of another log in groups, and takes them back.

Invariants
- A group is one commit, and is refused if the log does not end where the group begins.
- Nothing is announced and nobody is woken."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.database.database import PROJECTIONS
from holdfast.core.database.errors import Moved
from holdfast.core.database.unit import Statement, Unit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Committed, Value
    from holdfast.core.event.preparation import Preparation, Prepared
    from holdfast.core.event.signal import Signals
    from holdfast.schema.event import SerializedEvent


class Adoption:
    def __init__(
        self,
        database: Database,
        preparation: Preparation,
        signals: Signals,
        rebuild: Callable[[str], Awaitable[int]],
    ) -> None:
        self._database = database
        self._signals = signals
        self._rebuild = rebuild
        self.check: Callable[[SerializedEvent], Prepared] = preparation.known
        """The event with its projections. Raises InvalidDurableEvent."""

    async def adopt(
        self,
        events: Sequence[SerializedEvent],
        *,
        after: int,
        before: Sequence[Statement] = (),
        local: Sequence[Statement] = (),
    ) -> None:
        """Append events of one aggregate, whose log must end with the sequence `after`; -1 means that it has none.
        Raises Moved if it does not."""
        aggregate_id = events[0].aggregate_id
        prepared = [self.check(event) for event in events]
        unit = Unit(
            aggregate_id,
            events=tuple(item.row for item in prepared),
            before=(_ends_with(aggregate_id, after), *before),
            local=tuple(local),
            shares_lineage=any(
                statement.name.startswith("lineage.") for item in prepared for statement in item.row.projections
            ),
        )
        await self._database.submit(unit, partial(self._committed, aggregate_id))

    async def take_back(self, aggregate_id: str, *, head: int, reached: int, local: Sequence[Statement] = ()) -> None:
        """Remove the events after `head`, of which `reached` is the last, with their projections. Raises Moved if there
        are newer ones."""
        unchanged = _ends_with(aggregate_id, reached)
        key = {"aggregate_id": aggregate_id}
        if head >= 0:
            cut: dict[str, Value] = {**key, "head": head}
            removed: tuple[Statement, ...] = (Statement("event.remove_after", cut), Statement("event.end_with", cut))
            await self._database.submit(Unit(aggregate_id, before=(unchanged,), local=removed))
            await self._rebuild(aggregate_id)
            return
        clear = (Statement(f"projection.clear_{table}", {"id": aggregate_id}) for table in PROJECTIONS[::-1])
        removed = (*local, *clear, Statement("event.remove_all", key), Statement("event.remove_sequence", key))
        await self._database.submit(Unit(aggregate_id, before=(unchanged,), local=removed, shares_lineage=True))

    def _committed(self, aggregate_id: str, committed: Committed) -> None:
        self._signals.committed(aggregate_id, committed.last)


def _ends_with(aggregate_id: str, seq: int) -> Statement:
    error = partial(Moved, aggregate_id)
    if seq < 0:
        return Statement("event.any_of", {"aggregate_id": aggregate_id}, found=False, error=error)
    return Statement("event.head_is", {"aggregate_id": aggregate_id, "head": seq}, found=True, error=error)
