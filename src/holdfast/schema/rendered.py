"""A conversation as a person reads it: texts as safe HTML or as they were written, tool calls as one line each, and
marks between them. Of `html` and `text` one is filled, as the reader asked; a prompt always has its text."""

from typing import Any, Literal

from holdfast.schema.ids import SessionIDField
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Delivery
from holdfast.schema.record import Record
from holdfast.schema.session import Tokens
from holdfast.schema.session_message import Time, ToolTime

TextFormat = Literal["html", "text"]


class RenderedText(Record, tag_field="type", tag="text"):
    id: str
    html: str = ""
    text: str = ""
    open: bool = False
    """Whether the model still writes it."""
    partial: str = ""
    """The text so far, plain in both formats and at most a second old, for a reader that gets no live text of the
    block."""
    broken_off: bool = False
    """Whether the process ended before the model did."""


class RenderedReasoning(Record, tag_field="type", tag="reasoning"):
    id: str
    html: str = ""
    text: str = ""
    open: bool = False
    partial: str = ""
    """As in `RenderedText`, and so is `broken_off`."""
    broken_off: bool = False
    time: Time | None = None


CallStatus = Literal["pending", "running", "waiting", "completed", "error"]
"""`pending`: the model still writes its input. `waiting`: for a person."""


class RenderedCall(Record, tag_field="type", tag="tool"):
    """A tool call. Its body is asked for apart."""

    id: str
    name: str
    status: CallStatus
    title: str
    """What it was called with, in one line: the path, the command, the pattern."""
    outcome: str | None = None
    """How it ended, in a few words: `12 matches`, `exit 1`."""
    additions: int | None = None
    deletions: int | None = None
    peek: str | None = None
    """Of a failure: the last lines of its output or its error."""
    child_id: SessionIDField | None = None
    """The Session that it gave work to."""
    request_id: str | None = None
    """The request to a person that it waits for."""
    time: ToolTime
    body: bool = False
    """Whether there is more to show."""
    partial: str = ""
    """The end of the input so far, while the model writes it."""


RenderedPart = RenderedText | RenderedReasoning | RenderedCall


class RenderedFile(Record):
    name: str
    mime: str
    uri: str | None = None


class RenderedEntry(Record, tag_field="type"):
    """`seq` is that of its first event, and the order of entries. An entry that changes keeps its id."""

    id: str
    seq: int
    time: Time


class UserEntry(RenderedEntry, tag="user"):
    html: str = ""
    text: str
    files: tuple[RenderedFile, ...] = ()
    delivery: Delivery | None = None
    admitted: int | None = None
    """When it was admitted, in milliseconds since the epoch."""
    command: str | None = None


class AssistantEntry(RenderedEntry, tag="assistant"):
    turn: int | None = None
    agent: str | None = None
    model: ModelRef | None = None
    parts: tuple[RenderedPart, ...]
    open: bool = False
    finish: str | None = None
    error: str | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    structured: Any = None


class ShellEntry(RenderedEntry, tag="shell"):
    command: str
    html: str = ""
    text: str = ""
    exit: int | None = None
    open: bool = False


class CompactionEntry(RenderedEntry, tag="compaction"):
    reason: Literal["auto", "manual"]
    html: str = ""
    text: str = ""
    open: bool = False
    error: str | None = None


class MarkEntry(RenderedEntry, tag="mark"):
    """Something that happened between messages."""

    kind: Literal[
        "context",
        "agent",
        "model",
        "synthetic",
        "retry",
        "crash",
        "suspended",
        "abandoned",
        "interrupted",
        "moved",
    ]
    title: str
    html: str = ""
    """What is shown when it is unfolded."""
    text: str = ""


Entry = UserEntry | AssistantEntry | ShellEntry | CompactionEntry | MarkEntry


class BodySection(Record):
    """A part of the body of a tool call, as text."""

    kind: Literal["diff", "code", "output", "note", "error"]
    """`diff`: a unified diff. `output`: of a program, with its sequences for terminals."""
    text: str
    name: str | None = None
    """Of a diff its file, of code its language."""
    status: Literal["added", "deleted", "modified"] | None = None
    """What became of the file of a diff."""


class CallBody(Record):
    """What a tool call was given and what it returned."""

    html: str = ""
    sections: tuple[BodySection, ...] = ()
    cut: bool = False
    """Whether a part was left out because of its size."""
    paths: tuple[str, ...] = ()
    """Files with the whole output, if it was too long to keep."""


class PreviewFile(Record):
    path: str
    status: Literal["added", "deleted", "modified"]
    additions: int
    deletions: int
    patch: str | None = None
    """A unified diff, whole; absent if the content is not text."""


class PermissionPreview(Record):
    """What an open permission request would allow, whole and as it was written: nothing is shortened, and characters
    that hide or reorder others are not yet made visible."""

    directory: str
    """Where it would happen, as an absolute path."""
    command: str | None = None
    """Of a command: exactly what would run."""
    files: tuple[PreviewFile, ...] = ()
    """What it would change, compared with the files as they are."""
    input: dict[str, Any] | None = None
    """The input of the tool call, unless `command` or `files` say all of it."""
    note: str | None = None
    """Why the changes are not known, or a comparison that was sent with the request."""


class ApprovalLink(Record):
    """Answers one request once, without signing in, until it expires."""

    path: str
    """To append to the address of the server; what is secret is behind its `#`, which browsers do not send."""
    expires: int
    """In milliseconds since the epoch."""
