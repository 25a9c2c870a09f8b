"""Sessions with what each does now, the open requests to people, and the state of the server."""

from typing import Literal

from holdfast.schema.form import Form
from holdfast.schema.ids import SessionIDField
from holdfast.schema.insight import InterruptedActivity, WaitInfo
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import QuestionRequest
from holdfast.schema.record import Record
from holdfast.schema.session import Session
from holdfast.schema.tree import Ending, NodeState, SessionStatus


class ContextUse(Record):
    used: int
    """Tokens of the newest request, as its provider counted them."""
    limit: int | None = None
    """Tokens that the model takes, if known."""


class OverviewSession(Record):
    session: Session
    root_id: SessionIDField
    """The Session at the top of its tree, which is the Session itself if it has no parent."""
    state: NodeState
    status: SessionStatus
    outcome: Ending | None = None
    """How its last activity ended, if it is idle."""
    waits: tuple[WaitInfo, ...] = ()
    pending: int = 0
    """Admitted inputs that are not promoted yet."""
    requests: int = 0
    """Open requests to people, of the Session and of those below it."""
    line: str | None = None
    """What it waits for; of one that waits for nothing, the beginning of its last answer."""
    context: ContextUse | None = None


class OpenRequest(Record):
    """Something that only a person can decide. One of `permission`, `question`, `form` and `activity` is set."""

    id: str
    """Of the request; of an interrupted activity, that of its Session."""
    kind: Literal["permission", "question", "form", "recovery"]
    session_id: str
    """The Session that asks, or `global`."""
    ancestors: tuple[SessionIDField, ...] = ()
    """The Sessions above it, root first."""
    titles: tuple[str, ...] = ()
    """The titles of the ancestors and of the Session."""
    directory: str | None = None
    agent: str | None = None
    since: int
    """In milliseconds since the epoch."""
    permission: PermissionRequest | None = None
    question: QuestionRequest | None = None
    form: Form | None = None
    activity: InterruptedActivity | None = None


class ProcessInfo(Record):
    """A process on the database."""

    id: str
    pid: int
    state: Literal["here", "alive", "gone"]
    """`here`: the one that answers."""
    serves: bool
    name: str | None = None
    address: str | None = None
    version: str | None = None
    started: int | None = None
    reported: int
    """When it last reported, in milliseconds since the epoch."""
    sessions: int
    """Leases that it holds."""
    room: int | None = None
    """How many Sessions more it executes; absent: without a limit."""


class DrainInfo(Record):
    """A Session that a process executes."""

    session_id: SessionIDField
    title: str
    owner_id: str
    since: int | None = None
    waits: tuple[WaitInfo, ...] = ()


class SessionWait(Record):
    session_id: str
    title: str
    wait: WaitInfo


class StoreInfo(Record):
    kind: Literal["sqlite", "postgresql"]
    name: str
    """The file, or the address without credentials."""
    version: str
    schema: int
    bytes: int | None = None
    """Of the file or of the tables."""
    log_bytes: int | None = None
    """Of the write-ahead log of a file."""
    free_bytes: int | None = None
    """On the disk of a file."""
    sessions: int
    """Counted up to 100,000; above that PostgreSQL estimates, and a file tells 100,000."""
    events: int
    """Of a file, how many were ever stored; PostgreSQL counts up to 100,000, and estimates above that."""
    outage: str | None = None
    """Why commits wait, if they do."""


class SystemInfo(Record):
    version: str
    started: int
    now: int
    """The server's clock."""
    store: StoreInfo
    processes: tuple[ProcessInfo, ...]
    drains: tuple[DrainInfo, ...]
    waits: tuple[SessionWait, ...]
    """Oldest first."""
    locations: tuple[str, ...]
    """Directories whose services are open."""


class DoctorFinding(Record):
    check: Literal["rows", "configuration", "database", "disk", "processes", "files", "clock", "models", "mcp"]
    """What was looked at."""
    level: Literal["error", "warning"]
    what: str
    fix: str
    """What a person can do about it."""


class DoctorReport(Record):
    sessions: int
    """How many were compared with their events."""
    milliseconds: int
    findings: tuple[DoctorFinding, ...]
