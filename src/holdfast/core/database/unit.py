"""A commit unit: events of one aggregate with their projections and local writes, as data.

Every statement is named, so that each back end brings its own SQL. A unit may run twice, and on another thread. While
it runs, `:seq` is bound to the sequence of the event that a statement belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.schema.exceptions import HoldfastError

Value = str | int | float | bytes | None
Row = tuple[Value, ...]


class Statement(Frozen):
    """A write that must change `changes` rows, or a check that must find something or nothing. Otherwise nothing of the
    unit is written, and its caller gets `error()`, or a Refused without it."""

    name: str
    params: Mapping[str, Value]
    changes: int | None = None
    found: bool | None = None
    error: Callable[[], HoldfastError] | None = None
    """Makes a new exception each time, so that no two callers share a traceback."""
    operational: bool = False
    """Changes state that is not a projection; a rebuild skips it."""


class NewEvent(Frozen):
    id: str
    type: str
    """The stored type, version included."""
    data: str
    metadata: str | None
    projections: tuple[Statement, ...]
    seq: int | None = None
    """Set only in a rebuild, where the sequence is known."""
    begins_at: int | None = None
    """The sequence of this event if it is the first of its aggregate; without it that is 0."""


class Fence(Frozen):
    """The lease under which a drain commits; checked inside the transaction, after `Unit.before`."""

    session_id: str
    owner_id: str
    token: int


class Replay(Frozen):
    """Conditions for an event from another log: it is the next one, or stored with the same content."""

    seq: int
    owner_id: str | None
    strict: bool


class Unit(Frozen):
    aggregate_id: str
    events: tuple[NewEvent, ...] = ()
    before: tuple[Statement, ...] = ()
    """Checks and writes that come before the events."""
    local: tuple[Statement, ...] = ()
    """Operational writes after the projections; `:seq` is the last event's. They do not run on replay."""
    fence: Fence | None = None
    replay: Replay | None = None
    rebuild: bool = False
    """Project stored events again (`NewEvent.seq` is set): without foreign keys, and nothing is appended."""
    locks: tuple[str, ...] = ()
    """Further aggregates whose rows the unit relies on. A store with several writers locks them; SQLite has one."""
    shares_lineage: bool = False
    """Relies on which Sessions show which messages. A store with several writers runs such units one at a time."""

    @property
    def size(self) -> int:
        """Characters of the events' data, about half of what is written."""
        return sum(len(event.data) for event in self.events)


class Committed(Frozen):
    """`first` … `last` are the sequences of the unit's events; `applied` is false for a replay that changed nothing."""

    first: int
    last: int
    applied: bool = True
