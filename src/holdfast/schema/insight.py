"""What can be seen of a Session beside its conversation: waits, broken turns, checkpoints, its System Context."""

from typing import Literal

import msgspec

from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record


class WaitInfo(Record):
    kind: Literal[
        "provider", "retry", "tool", "permission", "question", "owner", "compaction", "blocked", "recovery", "input"
    ]
    since: int
    """In milliseconds since the epoch."""
    what: str
    ends: str
    """What will end it."""
    id: str | None = None
    until: int | None = None
    """When it ends by itself, in milliseconds since the epoch, where that is known: the next attempt of a `retry`."""


Stage = Literal["promoted", "compacting", "between", "dispatched", "answering", "waiting"]
"""How far an activity came: its input became part of the conversation; history was being summarised; a step with tool
calls ended and the next turn was not sent; a turn was sent; its answer began; a call waits for a person."""


class InterruptedActivity(Record):
    """What a Session owes and no process works on."""

    session_id: str
    seq: int
    """Of the newest input that it answers."""
    stage: Stage
    since: int
    """When that input was admitted, in milliseconds since the epoch."""
    suspended: bool
    """Whether it was stopped by a shutdown, and not by a crash."""
    safe: bool
    """Whether nothing can happen a second time if it goes on."""
    what: str
    """The same for people: what happened."""
    next: str
    """And what comes of it, or who has to decide."""
    agent: str | None = None
    """This and the rest are known of a turn that was sent."""
    model: ModelRef | None = None
    attempt: int | None = None
    message_id: str | None = None
    """Its answer, if that began."""
    dispatched: int | None = None


class Outcome(Record):
    """How the last activity of a Session ended: `completed`, `failed` or `interrupted`. Or why it has not ended:
    `waiting` for a person, `blocked` before it could start, `unfinished` since no process works on it. `idle` means
    that there was none."""

    type: Literal["idle", "completed", "failed", "interrupted", "waiting", "blocked", "unfinished"]
    message_id: str | None = None
    """Its newest answer."""
    error: str | None = None
    """What went wrong, or what it waits for."""
    pending: int = 0
    """Inputs that were admitted and are not part of the conversation yet."""


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
