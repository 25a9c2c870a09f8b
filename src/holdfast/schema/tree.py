"""The tree of a Session: the Session, its children, their children, and so on, with what each does and costs."""

from typing import Literal

from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.insight import WaitInfo
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record
from holdfast.schema.session import SessionTime, Tokens

NodeState = Literal["idle", "running", "waiting", "blocked", "unfinished", "pending"]
"""`idle`: nothing to do. `running`: a process works on it. `waiting`: for a person, a subagent or a budget. `blocked`:
an input cannot start. `unfinished`: no process works on what it has begun. `pending`: no process has begun with an
input."""

SessionStatus = Literal[
    "new",
    "finished",
    "failed",
    "stopped",
    "running",
    "waiting",
    "paused",
    "blocked",
    "resuming",
    "interrupted",
    "pending",
]
"""The state of a Session in one word for people.

With nothing to do: `new`, it was never active. `finished`: its last activity completed. `failed`: it ended with an
error. `stopped`: somebody interrupted it, or it may take no more steps.

With work: `running`, a process works on it, or on a subagent it waits for. `waiting`: a person has to answer a request,
of the Session or of a subagent it waits for. `paused`: a budget is used up, which the wait names with its numbers.
`blocked`: an input cannot start. `resuming`: its process has gone, and another one continues by itself.
`interrupted`: its process has gone, and a person decides what becomes of the work. `pending`: no process has begun
with an input."""

Ending = Literal["completed", "failed", "interrupted"]

TaskStatus = Literal["running", "completed", "error", "cancelled"]


class TreeTask(Record):
    """The newest task that a Session was given by a call of its parent."""

    description: str
    agent: str
    background: bool
    status: TaskStatus
    started: int
    """In milliseconds since the epoch."""
    message_id: MessageIDField
    """The message of the parent that has the call."""
    call_id: str


class TreeTotal(Record):
    """Sums over a Session and all of its descendants."""

    sessions: int
    cost: float
    tokens: Tokens


class TreeNode(Record):
    id: SessionIDField
    parent_id: SessionIDField | None = None
    depth: int
    """Below the Session that was asked for, which has 0."""
    title: str
    agent: str | None = None
    model: ModelRef | None = None
    state: NodeState
    status: SessionStatus
    outcome: Ending | None = None
    """How its last activity ended, if it is idle."""
    waits: tuple[WaitInfo, ...] = ()
    task: TreeTask | None = None
    """None for a Session without a parent."""
    cost: float
    """Of the Session alone."""
    tokens: Tokens
    """Of the Session alone."""
    total: TreeTotal
    time: SessionTime


class TreeAncestor(Record):
    id: SessionIDField
    title: str
    agent: str | None = None


class SessionTree(Record):
    ancestors: tuple[TreeAncestor, ...]
    """Root first."""
    nodes: tuple[TreeNode, ...]
    """Each Session before its children, children in the order of their creation."""
    count: int
    """How many Sessions the tree has. Where it is more than the nodes, the deepest ones were left out."""
