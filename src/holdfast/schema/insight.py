"""What can be seen of a Session beside its conversation: waits, broken turns, checkpoints, its System Context."""

from typing import Literal

import msgspec

from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record


class WaitInfo(Record):
    kind: Literal["provider", "retry", "tool", "permission", "question", "owner", "compaction"]
    since: int
    """In milliseconds since the epoch."""
    what: str
    ends: str
    """What will end it."""
    id: str | None = None
    until: int | None = None
    """When it ends by itself, in milliseconds since the epoch, where that is known: the next attempt of a `retry`."""


class InterruptedTurn(Record):
    """A turn that was dispatched and has no end. `message_id` is its answer, if that began."""

    session_id: str
    seq: int
    agent: str
    model: ModelRef
    attempt: int
    message_id: str | None = None
    dispatched: int


class CheckpointInfo(Record):
    """The newest compaction: what the model reads instead of the messages it replaced."""

    message_id: str
    reason: str
    summary: str
    recent: str
    replaced: tuple[str, ...]
    """Ids of the messages it stands for, oldest first."""
    tokens_before: int
    tokens_after: int


class Current(Record, tag_field="type", tag="current"):
    pass


class UnavailableSince(Record, tag_field="type", tag="unavailable"):
    since: int


class RemovedSince(Record, tag_field="type", tag="removed"):
    since: int


class ContextSourceInfo(Record):
    """`value` is what the model was told last; a source that it was never told about, or that is gone, has none."""

    key: str
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    bytes: int
    removable: bool
    state: Current | UnavailableSince | RemovedSince


class ContextChangeInfo(Record):
    """A system message after the baseline, and the sources it spoke for."""

    seq: int
    keys: tuple[str, ...]


class PrefixBreakInfo(Record):
    """A request that did not begin with the bytes of the one before, and why."""

    seq: int
    causes: tuple[str, ...]


class RequestContextInfo(Record, tag_field="status", tag="initialized"):
    """What every request of the Session begins with, and how it came to be."""

    baseline: str
    baseline_seq: int
    sources: tuple[ContextSourceInfo, ...]
    changes: tuple[ContextChangeInfo, ...]
    prefix_breaks: tuple[PrefixBreakInfo, ...]


class RequestContextAbsent(Record, tag_field="status", tag="not initialized"):
    """No prompt was promoted yet, or the Session moved since."""


RequestContextView = RequestContextInfo | RequestContextAbsent
