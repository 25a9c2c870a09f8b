"""Inspection records of a Session: waits, interrupted turns, checkpoints, its System Context."""

from typing import Literal

import msgspec

from holdfast.schema.budget import BudgetInfo
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record


class WaitCause(Record):
    """What the last of a chain of subagents waits for."""

    session_id: str
    kind: str
    """As the kind of a wait."""
    since: int
    what: str
    ends: str
    id: str | None = None
    budget: BudgetInfo | None = None
    """As that of a wait."""


class UnsettledCall(Record):
    """A tool call that may have started and has no outcome."""

    id: str
    tool: str
    command: str | None = None
    """The beginning of the command, if the call runs one."""


class WaitInfo(Record):
    kind: Literal[
        "provider",
        "retry",
        "tool",
        "permission",
        "question",
        "form",
        "authorization",
        "owner",
        "compaction",
        "blocked",
        "recovery",
        "input",
        "budget",
        "subagent",
        "context",
    ]
    since: int
    """In milliseconds since the epoch."""
    what: str
    ends: str
    """What ends the wait."""
    id: str | None = None
    until: int | None = None
    """When it ends by itself, if known, in milliseconds since the epoch: the next attempt of a `retry`."""
    session_id: str | None = None
    """Of a `subagent`: the child. Of a request that a descendant made: that one."""
    cause: WaitCause | None = None
    """Of a `subagent`: what the child waits for, or the child of that one, and so on."""
    budget: BudgetInfo | None = None
    """Of a `budget`: the one that is used up, with its Session, its limits and what was used."""
    calls: tuple[UnsettledCall, ...] = ()
    """Of a `recovery`: the calls whose outcome is unknown."""


Stage = Literal["promoted", "compacting", "between", "dispatched", "answering", "waiting", "subagent"]
"""The progress of an activity: input promoted; history being compacted; between two turns; turn dispatched; answer
started; a call waits for a person, or for a subagent."""


class InterruptedActivity(Record):
    """Unfinished work of a Session that no process executes."""

    session_id: str
    seq: int
    """Sequence of the newest input."""
    stage: Stage
    since: int
    """Admission time of that input, in milliseconds since the epoch."""
    suspended: bool
    """Whether a shutdown stopped it; otherwise its process crashed."""
    safe: bool
    """Whether no call has an unknown outcome."""
    what: str
    """What happened, in words for the user."""
    next: str
    """What happens next, or who has to decide."""
    agent: str | None = None
    """This and the following fields are set for a dispatched turn."""
    model: ModelRef | None = None
    attempt: int | None = None
    message_id: str | None = None
    """Its answer, if one was started."""
    dispatched: int | None = None
    decision: bool = False
    """Whether it waits for the decision of a person."""
    calls: tuple[UnsettledCall, ...] = ()
    """The calls whose outcome is unknown. None of them is repeated."""
    parent_id: str | None = None
    """Of a child. This and the following fields are of its tree."""
    root_id: str | None = None
    """The Session at the top, which is the Session itself if it has no parent."""
    depth: int = 0
    """Below the root."""


STRUCTURED_OUTPUT = "Session.StructuredOutputError"
"""The code of an outcome: the model gave no answer in the form that the prompt asked for."""


class Outcome(Record):
    """How the last activity of a Session ended: `completed`, `failed` or `interrupted`. Or why it has not ended:
    `waiting` for a person or a budget, `blocked` before it could start, `unfinished` because no process executes it.
    `idle` means that there was none."""

    type: Literal["idle", "completed", "failed", "interrupted", "waiting", "blocked", "unfinished"]
    message_id: str | None = None
    """Its newest answer."""
    error: str | None = None
    """The error, or what it waits for."""
    code: str | None = None
    """The name of the failure, if it has one."""
    pending: int = 0
    """Admitted inputs that are not promoted yet."""


class CheckpointInfo(Record):
    """The newest compaction: what the model reads in place of the replaced messages."""

    message_id: str
    reason: str
    summary: str
    recent: str
    replaced: tuple[str, ...]
    """Ids of the replaced messages, oldest first."""
    tokens_before: int
    tokens_after: int


class Current(Record, tag_field="type", tag="current"):
    pass


class UnavailableSince(Record, tag_field="type", tag="unavailable"):
    since: int


class RemovedSince(Record, tag_field="type", tag="removed"):
    since: int


class ContextSourceInfo(Record):
    """`value` is what the model was last told; absent if it was never told or the source is gone."""

    key: str
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    bytes: int
    removable: bool
    state: Current | UnavailableSince | RemovedSince


class ContextChangeInfo(Record):
    """A system message after the baseline, and the sources that changed."""

    seq: int
    keys: tuple[str, ...]


class PrefixBreakInfo(Record):
    """A request that did not start with the bytes of the previous one, and the causes."""

    seq: int
    causes: tuple[str, ...]
    plugins: tuple[str, ...] | None = None
    """The plugins, where a hook is a cause."""


class RequestContextInfo(Record, tag_field="status", tag="initialized"):
    """The System Context of the Session, and how it changed."""

    baseline: str
    baseline_seq: int
    sources: tuple[ContextSourceInfo, ...]
    changes: tuple[ContextChangeInfo, ...]
    prefix_breaks: tuple[PrefixBreakInfo, ...]


class RequestContextAbsent(Record, tag_field="status", tag="not initialized"):
    """No prompt was promoted since the Session was created or moved."""


RequestContextView = RequestContextInfo | RequestContextAbsent
