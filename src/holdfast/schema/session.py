"""The public Session record, and the full record in private events."""

from typing import Any, Literal

from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record


class CacheTokens(Record):
    read: int
    write: int


class Tokens(Record):
    input: int
    output: int
    reasoning: int
    cache: CacheTokens


NO_TOKENS = Tokens(input=0, output=0, reasoning=0, cache=CacheTokens(read=0, write=0))


class SessionTime(Record):
    created: int
    updated: int
    archived: int | None = None
    pinned: int | None = None
    """Since when retention must not remove it."""


class RevertFile(Record):
    path: str
    status: Literal["added", "modified", "deleted"]
    additions: int
    deletions: int
    patch: str


class Revert(Record):
    message_id: str
    part_id: str | None = None
    snapshot: str | None = None
    diff: str | None = None
    files: tuple[RevertFile, ...] | None = None
    before: bool | None = None
    """Whether the message itself is taken back too. Otherwise it stays."""


class ForkBefore(Record, tag_field="type", tag="before"):
    """Share what comes before a message."""

    message_id: MessageIDField


class ForkThrough(Record, tag_field="type", tag="through"):
    """Share everything that is complete."""


class ForkBoundary(Record):
    """Where the shared history ends: before a message, or with it."""

    type: Literal["before", "through"]
    message_id: MessageIDField


class Fork(Record):
    """From which Session a fork was made, and how much of its history it shares."""

    session_id: SessionIDField
    boundary: ForkBoundary
    root_id: SessionIDField
    """The first Session of the lineage. Its id is the prompt cache key of all of them."""
    through_seq: int
    """The last sequence that is shared. The fork's own events follow it."""


class Session(Record):
    id: SessionIDField
    parent_id: str | None = None
    project_id: str
    agent: str | None = None
    model: ModelRef | None = None
    cost: float
    tokens: Tokens
    time: SessionTime
    title: str
    location: Location
    subpath: str | None = None
    revert: Revert | None = None
    fork: Fork | None = None
    children: int | None = None
    """How many children it has, if any. Only in lists."""


class SessionActive(Record):
    type: Literal["running"]


class RecordTime(Record):
    created: int
    updated: int
    compacting: int | None = None
    archived: int | None = None
    pinned: int | None = None


class SessionRecord(Record):
    """All columns of the session row; the payload of `session.created`, `.updated` and `.deleted`."""

    id: SessionIDField
    slug: str
    project_id: str
    workspace_id: str | None = None
    directory: str
    path: str | None = None
    parent_id: str | None = None
    summary: dict[str, Any] | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    share: dict[str, Any] | None = None
    title: str
    agent: str | None = None
    model: ModelRef | None = None
    version: str
    metadata: dict[str, Any] | None = None
    time: RecordTime
    permission: Any | None = None
    revert: Revert | None = None
    fork: Fork | None = None
