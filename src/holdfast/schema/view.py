"""What the stream of a conversation sends: entries that changed, text that is being written, the state around them."""

from typing import Literal

from holdfast.schema.access import Role
from holdfast.schema.overview import OpenRequest, OverviewSession
from holdfast.schema.prompt import Admission
from holdfast.schema.record import Record
from holdfast.schema.rendered import Entry
from holdfast.schema.todo import Todo

BlockKind = Literal["text", "reasoning", "input", "shell", "compaction"]


class Hello(Record, tag_field="type", tag="hello"):
    version: str
    """For a page that of its files: another one than `data-version` means that the server was updated. For other
    readers that of the server."""
    now: int
    """The server's clock, in milliseconds since the epoch."""
    head: int | None = None
    """The last sequence of the followed Session."""
    role: Role | None = None
    """What the reader may do. A page does not offer what is not allowed; the server refuses it in any case."""


class Entries(Record, tag_field="type", tag="entries"):
    seq: int
    """The sequence that they reach."""
    entries: tuple[Entry, ...]
    """Whole, those that changed."""


class Caught(Record, tag_field="type", tag="caught"):
    """Everything up to `seq` was sent."""

    seq: int


class Reset(Record, tag_field="type", tag="reset"):
    """The conversation is to be loaded again."""


class Gone(Record, tag_field="type", tag="gone"):
    """The Session was deleted."""


class Block(Record, tag_field="type", tag="block"):
    """Text that is being written. One of `html`, `text` and `add` is set."""

    message_id: str
    part_id: str
    kind: BlockKind
    index: int
    """Which block of the text; of one that is sent as text there is only 0."""
    html: str | None = None
    """A finished block."""
    text: str | None = None
    """The open block, whole."""
    add: str | None = None
    """What is added to the open block."""


class TreeUse(Record):
    sessions: int
    cost: float


class Status(Record, tag_field="type", tag="status"):
    session: OverviewSession
    pending: tuple[Admission, ...]
    todos: tuple[Todo, ...]
    tree: TreeUse


class Requests(Record, tag_field="type", tag="requests"):
    """All open requests, of the followed Session and those below it; a page gets those of all Sessions."""

    requests: tuple[OpenRequest, ...]


class Bye(Record, tag_field="type", tag="bye"):
    reason: Literal["stopping", "signed-out"]


ViewFrame = Hello | Entries | Caught | Reset | Gone | Block | Status | Requests | Bye
