"""What a transfer needs of a store, the same for both kinds.

Invariants
- Each method that changes something is one transaction.
- Rows are streamed: memory does not depend on how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.database.transfer.mark import Mark
    from holdfast.core.database.transfer.tables import Table
    from holdfast.core.database.unit import Row, Value


class OwnerRow(NamedTuple):
    """A process that has a row in the store."""

    id: str
    pid: int
    name: str | None
    """Of a process that serves."""
    locked: int | None
    """Whether the database keeps its lock; None if it does not know, or keeps none."""


class Place(NamedTuple):
    """How far a table was copied: the key of the last row, and how many rows that were."""

    key: tuple[Value, ...]
    copied: int


class StoredEvent(NamedTuple):
    first: int
    """The position of the first event of its aggregate."""
    fork: bool
    """Whether the aggregate is a Session that began as a fork."""
    row: Row


class TransferStore(Protocol):
    name: str
    """For messages, without a password."""
    identity: str
    """Equal if and only if two addresses lead to the same store."""

    def lock(self) -> None:
        """Keep other transfers away until `close`. Raises TransferRunning."""

    def marks(self) -> dict[str, Mark]:
        """The marks by role."""

    def filled_table(self) -> str | None:
        """A table that has rows, if there is one."""

    def mark(self, mark: Mark, check: Callable[[list[OwnerRow]], None]) -> None:
        """Mark the store, and refuse the changes of all others from now on. `check` sees the processes in the same
        transaction and raises if one of them lives. A target is emptied, and its progress forgotten."""

    def resume(self, mark: Mark) -> None:
        """Go on with a target that was marked by an earlier run."""

    def complete(self, role: str) -> None:
        """The transfer has ended here. A target takes changes from now on, a source still refuses them."""

    def unmark(self, role: str) -> None:
        """Take the mark back. A target is emptied."""

    def progress(self) -> dict[str, Place]: ...

    def columns(self, table: str) -> list[str]:
        """The columns that are copied: all but the position of an event."""

    def count(self, table: str) -> int: ...

    def rows(self, table: Table, columns: Sequence[str], after: tuple[Value, ...] | None = None) -> Iterator[Row]:
        """The rows in the order of their keys, after one of them."""

    def events(self, columns: Sequence[str], after: tuple[Value, ...] | None = None) -> Iterator[StoredEvent]:
        """All events: aggregates in the order in which they began, and their events by sequence. `after` is the
        position of a first event, an aggregate and a sequence."""

    def events_of(self, aggregate_id: str, columns: Sequence[str]) -> Iterator[Row]:
        """The events of one aggregate by sequence."""

    def write(self, table: str, columns: Sequence[str], rows: Sequence[Row], place: Place) -> None:
        """Add rows, and store how far the table was copied, in one transaction."""

    def settle(self) -> None:
        """Called when everything was copied: statistics, checkpoints."""

    def close(self) -> None: ...
