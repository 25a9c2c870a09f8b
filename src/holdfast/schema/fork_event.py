"""The payloads of durable events about forks: what a fork takes over, and how it goes back into that."""

from holdfast.schema.ids import SessionIDField
from holdfast.schema.location import Location
from holdfast.schema.record import Record
from holdfast.schema.session_event import SessionPayload
from holdfast.schema.todo import Todo


class LineageSegment(Record):
    """Messages of a Session with a sequence after `after_seq`, up to `through_seq`."""

    source_id: SessionIDField
    after_seq: int
    through_seq: int


class TakenInstruction(Record):
    """An instruction file that the source had discovered, and at which sequence."""

    path: str
    seq: int


class SessionForked(SessionPayload):
    """What a fork takes over from its source. Its own events follow `through_seq`."""

    source_id: SessionIDField
    through_seq: int
    segments: tuple[LineageSegment, ...]
    location: Location
    instructions: tuple[TakenInstruction, ...] = ()
    todos: tuple[Todo, ...] = ()
    todos_seq: int | None = None


class LineageShortened(SessionPayload):
    """A fork goes back into the history it shares. The revert that it is part of follows in the same commit."""

    through_seq: int
