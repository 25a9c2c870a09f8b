"""The conversation of one Session as a request in the making: lowered and encoded once, then only extended.

Invariants
- Hot equals cold: after any sequence of extensions the body is what a fresh load of the active history encodes.
- What is encoded never changes again inside one frame. Another frame is another request, encoded anew.
- What one request says at its end is encoded on top of the conversation and never becomes part of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.core.runner.budget import characters
from holdfast.core.runner.lowering import has_files, holds_media, lower, pruned, without_media
from holdfast.core.runner.request_size import FrameSize, RequestSize, frame_size
from holdfast.llm.request import Generation, HttpOverlay, SystemPart, ToolDefinition, make_request, user
from holdfast.llm.stream import prepare
from holdfast.schema.frozen import Frozen
from holdfast.schema.session_message import ShellMessage

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from holdfast.core.filesystem.content import Content
    from holdfast.core.session.store import SessionStore
    from holdfast.core.session.stored_messages import StoredMessage
    from holdfast.llm.answer_format import AskedFormat
    from holdfast.llm.model import Model
    from holdfast.llm.request import Message, ToolChoice
    from holdfast.llm.stream import Prepared
    from holdfast.schema.model import ModelRef
    from holdfast.schema.session_message import AssistantMessage, SessionMessage

# What an explicit run says when there is no history at all: every provider wants a message.
CONTINUE = "Continue."


class Frame(Frozen):
    """A request without its conversation."""

    agent: str
    ref: ModelRef
    model: Model
    system: tuple[SystemPart, ...]
    tools: tuple[ToolDefinition, ...]
    tool_choice: ToolChoice | None
    generation: Generation | None
    options: dict[str, dict[str, Any]] | None
    http: HttpOverlay
    baseline_seq: int
    checkpoint_seq: int
    pruned_seq: int = -1
    closing: tuple[Message, ...] = ()
    """System messages at the end of this one request. They are no part of the conversation."""
    last_step: bool = False
    """Whether the agent's last step is announced."""
    hooks: tuple[str, ...] = ()
    """The plugins that changed something about it."""
    output: AskedFormat | None = None
    """How it asks for a structured answer."""
    media: bool = True
    """False after the provider refused a request with media: each is a note then."""
    baseline: str = ""
    """The part of the system text that is the baseline of the epoch."""


class History:
    """Lives as long as its drain."""

    def __init__(self, store: SessionStore, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._given: Frame | None = None
        self._frame: Frame | None = None
        """The given frame without what it says at the end."""
        self._prepared: Prepared | None = None
        self._final = True
        self._held: set[str] = set()
        """Answers that were added before their rows were read."""
        self._revision: int | None = None
        self.reached = -1
        """The sequence of the last message in it."""
        self.has_media = False
        """Whether the conversation holds any that is sent."""
        self._fixed = FrameSize()
        self._lowered = self._closing = 0
        """Characters of lowered messages, and of what is said at the end."""
        self.expects_files = False
        """Whether messages that are read next are likely to have files: what is stored of those is then read at the
        same time."""

    async def request(self, frame: Frame, answer: AssistantMessage | None, revision: int | None = None) -> Prepared:
        """The whole request. `answer` is the turn just ended, whose last events may still be on their way to disk;
        that its step has started is already committed. `revision` is that of the Session's messages: while it stays the
        same, nothing but answers was added."""
        if frame is not self._given:
            self._take(frame)
        assert self._frame is not None
        prepared = await self._conversation(self._frame, answer, revision)
        return prepared.followed_by(frame.closing) if frame.closing else prepared

    def _take(self, frame: Frame) -> None:
        """The conversation is encoded anew only if the frame differs in more than what it says at the end."""
        bare = frame.replace(closing=()) if frame.closing else frame
        if bare != self._frame:
            self._frame = bare
            self.forget()
        self._given = frame
        self._closing = sum(map(characters, frame.closing))

    @property
    def characters(self) -> int:
        """Of system text, tools and lowered messages, as neutral JSON: the measure of the estimate."""
        return self._fixed.characters + self._lowered + self._closing

    @property
    def frame_characters(self) -> int:
        """Of everything except the conversation."""
        return self._fixed.characters + self._closing

    def size(self, sent: Prepared) -> RequestSize:
        """Of a request that this history made last."""
        return RequestSize(sent.draft, (self._prepared or sent).draft, self._fixed)

    async def _conversation(self, frame: Frame, answer: AssistantMessage | None, revision: int | None) -> Prepared:
        known, self._revision = self._revision, revision
        if self._prepared is None or not self._final:
            return await self._load(frame, answer)
        if revision is not None and revision == known:
            if answer is not None and answer.id not in self._held:
                self._held.add(answer.id)
                self._prepared.extend(self._sendable(lower((answer,), frame.ref), frame))
            return self._prepared
        held = answer.id if answer is not None else None
        rows, kept = await self._with_files(self._store.history_after(self._session_id, self.reached, held))
        if messages := await self._lower(rows, answer, frame, kept):
            self._prepared.extend(messages)
        return self._prepared

    async def conversation(self, frame: Frame, answer: AssistantMessage | None) -> tuple[Message, ...]:
        """The messages that a request with this frame has, for others to read."""
        rows = await self._store.active_history(self._session_id)
        history = [answer if answer is not None and row.id == answer.id else row.decode() for row in rows]
        shown = [pruned(item) if row.seq <= frame.pruned_seq else item for row, item in zip(rows, history, strict=True)]
        kept = await self._store.attachments(self._session_id) if any(map(has_files, history)) else {}
        messages = lower(shown, frame.ref, kept)
        return messages if frame.media else without_media(messages)

    def replaced(self, frame: Frame, messages: Sequence[Message]) -> Prepared:
        """The request with another conversation in place of the stored one. The next request is made anew."""
        self.forget()
        self.has_media = False
        self._fixed, self._lowered = frame_size(frame.system, frame.tools, frame.baseline), 0
        self._closing = sum(map(characters, frame.closing))
        return _prepare(frame, (*self._sendable(tuple(messages), frame), *frame.closing))

    def forget(self) -> None:
        self._prepared = None

    async def input_characters(self, frame: Frame) -> int:
        """How much of the request the open input is."""
        opened = [row.decode() for row in await self._store.open_input(self._session_id)]
        kept = await self._store.attachments(self._session_id) if any(map(has_files, opened)) else {}
        messages = lower(opened, frame.ref, kept)
        return sum(characters(message) for message in (messages if frame.media else without_media(messages)))

    async def _load(self, frame: Frame, answer: AssistantMessage | None) -> Prepared:
        self._final, self.has_media = True, False
        self._held.clear()
        self.reached = -1
        self._fixed, self._lowered = frame_size(frame.system, frame.tools, frame.baseline), 0
        reading = self._store.active_history(self._session_id, frame.checkpoint_seq)
        rows, kept = await self._with_files(reading)
        messages = await self._lower(rows, answer, frame, kept)
        self._prepared = _prepare(frame, messages)
        if self._prepared.draft.empty:  # nothing is said, or nothing that the protocol would send
            self._prepared = _prepare(frame, (user(CONTINUE),))
            self._final = False  # its only message is made up, and gone as soon as there is a real one
        return self._prepared

    async def _with_files(
        self, reading: Coroutine[Any, Any, list[StoredMessage]]
    ) -> tuple[list[StoredMessage], dict[tuple[str, int], Content] | None]:
        """The messages, and the content of files if some are expected."""
        if not self.expects_files:
            return await reading, None
        self.expects_files = False
        rows, kept = await asyncio.gather(reading, self._store.attachments(self._session_id))
        return rows, kept

    async def _lower(
        self,
        rows: Sequence[StoredMessage],
        answer: AssistantMessage | None,
        frame: Frame,
        kept: dict[tuple[str, int], Content] | None,
    ) -> tuple[Message, ...]:
        history = list(self._decode(rows, answer, frame))
        if kept is None:
            kept = await self._store.attachments(self._session_id) if any(map(has_files, history)) else {}
        return self._sendable(lower(history, frame.ref, kept), frame)

    def _sendable(self, messages: tuple[Message, ...], frame: Frame) -> tuple[Message, ...]:
        if not frame.media:
            messages = without_media(messages)
        elif not self.has_media:
            self.has_media = holds_media(messages)
        self._lowered += sum(characters(message) for message in messages)
        return messages

    def _decode(
        self, rows: Sequence[StoredMessage], answer: AssistantMessage | None, frame: Frame
    ) -> Iterable[SessionMessage]:
        for row in rows:
            self.reached = max(self.reached, row.seq)  # open input follows a checkpoint that is newer
            if row.id in self._held:  # it was added before its place was known
                self._held.discard(row.id)
                continue
            message: SessionMessage = answer if answer is not None and row.id == answer.id else row.decode()
            if isinstance(message, ShellMessage) and message.time.completed is None:
                self._final = False
            yield pruned(message) if row.seq <= frame.pruned_seq else message


def _prepare(frame: Frame, messages: tuple[Message, ...]) -> Prepared:
    request = make_request(
        system=frame.system,
        messages=messages,
        tools=frame.tools,
        tool_choice=frame.tool_choice,
        generation=frame.generation,
        provider_options=frame.options,
        http=frame.http,
        response_format=frame.output.response_format if frame.output is not None else None,
    )
    return prepare(frame.model, request)
