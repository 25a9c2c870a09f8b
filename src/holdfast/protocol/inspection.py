"""Operations that explain a Session: its requests to models, its context window, where its time went, its log, what it
was at a sequence, and which files it changed."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import SAFE, of_session
from holdfast.schema.errors import InvalidCursorError, MessageNotFoundError, NotFoundError, UnknownError
from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.ledger import LedgerEntry, Window
from holdfast.schema.past import Changes, LogEntry, PastSession
from holdfast.schema.record import Record
from holdfast.schema.rendered import CallBody, Entry, TextFormat
from holdfast.schema.timeline import Timeline
from holdfast.schema.view import ViewFrame

SequenceField = Annotated[int, msgspec.Meta(ge=0, le=SAFE)]


class LedgerQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None
    """How many of the newest requests; 200 by default."""
    before: SequenceField | None = None
    """Only requests before this sequence, for older pages."""


class WindowQuery(Record):
    seq: SequenceField | None = None
    """The newest request up to this sequence, instead of the newest of all."""


class TimelineQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=5_000)] | None = None
    """How many spans; 1,000 by default."""
    before: SequenceField | None = None
    """Only what began before this sequence, for older pages."""


class LogQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] | None = None
    """100 by default."""
    after: SequenceField | None = None
    """Only events after this sequence, oldest first."""
    before: SequenceField | None = None
    """Only events before this sequence. Without `after` the newest of them are given, still oldest first."""
    types: str | None = None
    """Beginnings of types, separated by commas, such as `session.next.tool,session.next.turn`."""
    search: str | None = None
    """Only events whose type or data contain this text, whatever its case."""


class LogPath(Record):
    session_id: SessionIDField
    seq: SequenceField


class PastQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None
    """How many of the newest messages; 200 by default."""


class RenderedQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None
    """50 by default."""
    order: Literal["asc", "desc"] | None = None
    """Newest first unless `asc`."""
    cursor: str | None = None
    at: SequenceField | None = None
    """As the conversation was at this sequence: the newest entries, without pages."""
    format: TextFormat | None = None
    """`html`, which is the default, or `text`: texts as they were written."""


class CallQuery(Record):
    format: TextFormat | None = None
    """`html`, which is the default, or `text`: sections instead of HTML."""


class ViewQuery(Record):
    after: SequenceField | None = None
    """Begin with what changed after this sequence; without it, with what changes from now on."""


class CallPath(Record):
    session_id: SessionIDField
    message_id: MessageIDField
    call_id: str


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    replace(endpoint, extension=True, handler=endpoint.handler or f"inspection.{endpoint.name}")
    for endpoint in of_session(
        endpoint(
            "sessions.ledger",
            "GET /ledger",
            "holdfast.session.ledger",
            "The requests that the Session sent to models, oldest first: sizes, tokens, cost, and what broke the "
            "common prefix.",
            role="read",
            query=LedgerQuery,
            history=LedgerEntry,
        ),
        endpoint(
            "sessions.window",
            "GET /window",
            "holdfast.session.window",
            "How the newest request fills the context window, or null before the first.",
            role="read",
            query=WindowQuery,
            data=Window | None,
        ),
        endpoint(
            "sessions.timeline",
            "GET /timeline",
            "holdfast.session.timeline",
            "Spans of work and of waiting, each with its cause, and moments that matter.",
            role="read",
            query=TimelineQuery,
            data=Timeline,
        ),
        endpoint(
            "sessions.log",
            "GET /log",
            "holdfast.session.log",
            "A page of the durable log, with private events, oldest first.",
            role="read",
            query=LogQuery,
            history=LogEntry,
        ),
        endpoint(
            "sessions.log_entry",
            "GET /log/{seq}",
            "holdfast.session.log.entry",
            "One durable event, whole.",
            role="read",
            params=LogPath,
            data=LogEntry,
            errors=(NotFoundError,),
        ),
        endpoint(
            "sessions.past",
            "GET /at/{seq}",
            "holdfast.session.past",
            "The Session as it was after the event with this sequence, computed from the log.",
            role="read",
            params=LogPath,
            query=PastQuery,
            data=PastSession,
            errors=(NotFoundError,),
        ),
        endpoint(
            "sessions.changes",
            "GET /changes",
            "holdfast.session.changes",
            "The files that the Session's tools changed, compared with how they were before its first step.",
            role="read",
            data=Changes,
            errors=(UnknownError,),
        ),
        endpoint(
            "sessions.rendered",
            "GET /rendered",
            "holdfast.session.rendered",
            "A page of the conversation with texts as safe HTML or as they were written, tool calls as one line each, "
            "and marks between messages.",
            role="read",
            query=RenderedQuery,
            page=Entry,
            errors=(InvalidCursorError, NotFoundError),
            handler="rendered.entries",
        ),
        endpoint(
            "sessions.rendered_call",
            "GET /rendered/{messageID}/{callID}",
            "holdfast.session.rendered.call",
            "The input and output of a tool call as safe HTML or as text: a diff, a terminal's output, code. Of a call "
            "that waits for permission, what it would change.",
            role="read",
            params=CallPath,
            query=CallQuery,
            data=CallBody,
            errors=(MessageNotFoundError, NotFoundError),
            handler="rendered.call",
        ),
        endpoint(
            "sessions.view",
            "GET /view",
            "holdfast.session.view",
            "Follows the conversation as text: entries that changed, text that is being written, the state of the "
            "Session, its inputs, tasks and open requests. A new reader loads pages of `rendered` first.",
            role="read",
            query=ViewQuery,
            stream=ViewFrame,
            handler="rendered.view",
        ),
    )
)
