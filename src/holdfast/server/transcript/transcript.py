"""Reads a whole conversation page by page and writes it in a form for reading."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from holdfast.core.redaction import Redaction
from holdfast.core.session.errors import MessageUndecodable
from holdfast.core.session.stored_messages import AFTER_ALL, BEFORE_ALL
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import Conflict
from holdfast.schema.session_message import AssistantMessage, ToolPart
from holdfast.server.conversation import Conversation
from holdfast.server.render.call_body import call_body
from holdfast.server.transcript.markdown import MarkdownWriter
from holdfast.server.transcript.page import PageWriter
from holdfast.server.types import RawBody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.core.runtime.runtime import Runtime
    from holdfast.core.session.stored_messages import StoredMessage
    from holdfast.schema.past import Changes
    from holdfast.schema.rendered import CallBody, Entry, TextFormat
    from holdfast.schema.session import Session

PAGE = 50
LEDGER = 1_000
SPANS = 500

CONTROLS = re.compile("[\x7f-\x9f]")
"""Controls that JSON may contain as they are. A terminal would obey them."""
Form = Literal["json", "markdown", "html"]


async def transcript(runtime: Runtime, session: Session, form: Form, *, redact: bool, most: int) -> RawBody:
    """The conversation, as far as the Session shows it, oldest first. Raises Conflict if it has more than `most`
    bytes."""
    redaction = Redaction.of(runtime.environment) if redact else Redaction.none()
    reading, pieces = _Reading(runtime, session, redaction), _Pieces(most, redaction)
    if form == "json":
        await _write_json(reading, pieces)
        return RawBody(pieces.data(), "application/json")
    if form == "markdown":
        writer = MarkdownWriter(session)
        pieces.add(writer.head())
        async for entry, bodies in reading.entries("text"):
            pieces.add(writer.entry(entry, bodies))
        return RawBody(pieces.data(), "text/markdown; charset=utf-8")
    await _write_page(reading, pieces)
    return RawBody(pieces.data(), "text/html; charset=utf-8")


class _Reading:
    """Reads the conversation. Secrets are replaced in what is stored: in rendered text they may be in several
    pieces."""

    def __init__(self, runtime: Runtime, session: Session, redaction: Redaction) -> None:
        self.runtime = runtime
        self.session = session
        self.redaction = redaction

    async def pages(self) -> AsyncIterator[list[StoredMessage]]:
        anchor: int | None = None
        while found := await self.runtime.sessions.messages(self.session.id, order="asc", limit=PAGE, anchor=anchor):
            anchor = found[-1].seq
            yield [self._redacted(message) for message in found]

    async def entries(self, form: TextFormat) -> AsyncIterator[tuple[Entry, dict[str, CallBody]]]:
        """Each entry, with the bodies of its calls."""
        conversation, after = Conversation(self.runtime, form), BEFORE_ALL
        async for page in self.pages():
            before = page[-1].seq if len(page) == PAGE else AFTER_ALL
            messages = {message.id: message for message in page}
            for entry in await conversation.page(self.session, page, after=after, before=before):
                yield entry, await asyncio.to_thread(_bodies, messages.get(entry.id), form)
            after = page[-1].seq

    async def changes(self) -> Changes:
        found = await self.runtime.inspection.changes(self.session)
        redacted = (replace(file, patch=self.redaction.apply(file.patch)) for file in found.files)
        return replace(found, files=tuple(redacted))

    def _redacted(self, message: StoredMessage) -> StoredMessage:
        if not self.redaction.active:
            return message
        return message.replace(wire=self.redaction.apply_to_json(bytes(message.wire)))


class _Pieces:
    """Collects text up to a bound."""

    def __init__(self, most: int, redaction: Redaction) -> None:
        self._most = most
        self._redaction = redaction
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, text: str) -> None:
        piece = self._redaction.apply(text).encode("utf-8", "replace")
        self._size += len(piece)
        if self._size > self._most:
            raise Conflict(
                f"The conversation has more than {self._most:,} bytes in this form; export a bundle instead",
                resource="session",
            )
        self._pieces.append(piece)

    def data(self) -> bytes:
        return b"".join(self._pieces)


async def _write_json(reading: _Reading, pieces: _Pieces) -> None:
    """The shape of OpenCode's export: `info` and `messages`."""
    pieces.add('{"info":' + encode(reading.session).decode() + ',"messages":[')
    first = True
    async for page in reading.pages():
        for message in page:
            text = bytes(message.wire).decode("utf-8", "replace")
            pieces.add(("" if first else ",\n") + CONTROLS.sub(_escape, text))
            first = False
    pieces.add("]}\n")


async def _write_page(reading: _Reading, pieces: _Pieces) -> None:
    writer, inspection, session = PageWriter(reading.session), reading.runtime.inspection, reading.session
    pieces.add(writer.head())
    async for entry, bodies in reading.entries("html"):
        pieces.add(writer.entry(entry, bodies))
    ledger = await inspection.ledger(session, limit=LEDGER)
    timeline = await inspection.timeline(session, limit=SPANS)
    pieces.add(writer.foot(ledger.entries, timeline, await reading.changes()))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _bodies(stored: StoredMessage | None, form: TextFormat) -> dict[str, CallBody]:
    if stored is None:
        return {}
    try:
        message = stored.decode()
    except MessageUndecodable:
        return {}
    content = message.content if isinstance(message, AssistantMessage) else ()
    return {part.id: call_body(part, form=form) for part in content if isinstance(part, ToolPart)}
