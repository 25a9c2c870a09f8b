"""The log of a Session as it is stored, the Session as it was at a sequence, and the files that it changed."""

from typing import Annotated

import msgspec

from holdfast.schema.prompt import Admission
from holdfast.schema.record import Record
from holdfast.schema.session import RevertFile, Session
from holdfast.schema.session_message import SessionMessage
from holdfast.schema.todo import Todo


class LogEntry(Record):
    """A durable event, public or private."""

    seq: int
    id: str
    type: str
    """With its version, as in the log."""
    time: int
    """In milliseconds since the epoch."""
    public: bool
    size: int
    """Bytes of its data."""
    data: Annotated[
        msgspec.Raw | msgspec.UnsetType, msgspec.Meta(description="Absent if larger than 64 KiB; ask for the one event")
    ] = msgspec.UNSET


class PastSession(Record):
    """A Session as it was directly after the event with this sequence."""

    seq: int
    time: int
    session: Session
    messages: tuple[SessionMessage, ...]
    """The newest, oldest first."""
    more: bool
    """Whether there are older messages."""
    pending: tuple[Admission, ...]
    todos: tuple[Todo, ...]
    requests: tuple[str, ...]
    """Ids of open requests to people."""


class Changes(Record):
    """What the tools of a Session changed in its directory, from the first step to the last."""

    files: tuple[RevertFile, ...]
    complete: bool
    """Whether all steps could be compared. Otherwise `note` says what is missing."""
    note: str | None = None
