"""The events of a Session that shows a given conversation. The same conversation gives the same events.

Files that are not part of a prompt are noted as absent: nobody reads the paths of a foreign conversation here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from holdfast.core.bundle.opencode.foreign import LARGEST_NUMBER, derived_id
from holdfast.core.filesystem.content import is_data_uri
from holdfast.core.session.answer_outcome import IMPORTED
from holdfast.schema import session_event as ev
from holdfast.schema.codec import encode, encode_text
from holdfast.schema.event import SerializedEvent
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import NO_TOKENS, RecordTime, SessionRecord
from holdfast.schema.session_message import (
    AgentSwitchedMessage,
    AssistantMessage,
    CompactionMessage,
    ModelSwitchedMessage,
    ReasoningPart,
    ShellMessage,
    SyntheticMessage,
    SystemMessage,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.bundle.opencode.transcript import Transcript
    from holdfast.schema.record import Record
    from holdfast.schema.session_message import Part, SessionMessage

ABSENT_FILE = "The file was not part of the conversation that was imported."
LONGEST_TITLE = 1_000


def conversation_events(
    transcript: Transcript, session_id: str, parent_id: str | None, name: Callable[[str], str]
) -> list[SerializedEvent]:
    """`name` gives a message its id."""
    made = _Making(transcript, session_id, parent_id, name)
    return [_event(session_id, transcript.created, seq, payload) for seq, payload in enumerate(made.payloads())]


def _event(session_id: str, started: int, seq: int, payload: Record) -> SerializedEvent:
    type, data = MANIFEST.of_payload[payload.__class__].stored_type, encode(payload)
    time: int = getattr(payload, "timestamp", started)
    id = derived_id("evt", time, session_id, str(seq), type, data.decode(), counter=seq)
    return SerializedEvent(id=id, type=type, seq=seq, aggregate_id=session_id, data=msgspec.Raw(data))


class _Making:
    def __init__(
        self, transcript: Transcript, session_id: str, parent_id: str | None, name: Callable[[str], str]
    ) -> None:
        self._transcript = transcript
        self._id = session_id
        self._parent_id = parent_id
        self._name = name
        self._owes = False
        """Whether the model owes an answer after the events so far."""
        self._last = transcript.created

    def payloads(self) -> Iterator[Record]:
        yield self._created()
        for message in self._transcript.messages:
            yield from self._message(message)
        if self._owes:
            yield ev.ActivityEnded(timestamp=self._last, session_id=self._id, reason=IMPORTED)

    def _created(self) -> Record:
        told = self._transcript
        record = SessionRecord(
            id=self._id,
            slug=IMPORTED,
            project_id=told.project_id,
            directory=told.directory,
            parent_id=self._parent_id,
            title=told.title[:LONGEST_TITLE],
            agent=told.agent,
            model=told.model,
            version=told.version,
            metadata={IMPORTED: {"from": "opencode", "id": told.id, "version": told.version}},
            time=RecordTime(created=told.created, updated=told.updated, archived=told.archived),
        )
        return ev.SessionCreated(session_id=self._id, info=record)

    def _message(self, message: SessionMessage) -> Iterator[Record]:
        now = self._last = _time(message.time.created)
        at: dict[str, Any] = {"timestamp": now, "session_id": self._id}
        id = self._name(message.id)
        match message:
            case UserMessage():
                yield from self._prompt(message, id, now)
            case SyntheticMessage():
                yield ev.Synthetic(
                    **at, message_id=id, text=message.text, description=message.description, metadata=message.metadata
                )
            case SystemMessage():
                yield ev.ContextUpdated(**at, message_id=id, text=message.text)
            case ShellMessage():
                yield ev.ShellStarted(**at, message_id=id, call_id=message.call_id, command=message.command)
                ended = {**at, "timestamp": _time(message.time.completed, now)}
                yield ev.ShellEnded(**ended, call_id=message.call_id, output=message.output, exit=message.exit)
            case AgentSwitchedMessage():
                yield ev.AgentSwitched(**at, message_id=id, agent=message.agent)
            case ModelSwitchedMessage():
                yield ev.ModelSwitched(**at, message_id=id, model=message.model)
            case CompactionMessage():
                yield ev.CompactionStarted(**at, message_id=id, reason=message.reason)
                yield ev.CompactionEnded(
                    **at, message_id=id, reason=message.reason, text=message.summary, recent=message.recent
                )
            case AssistantMessage():
                yield from self._answer(message, id, now)
            case _:
                assert_never(message)

    def _prompt(self, message: UserMessage, id: str, now: int) -> Iterator[Record]:
        at: dict[str, Any] = {"timestamp": now, "session_id": self._id, "message_id": id}
        prompt = Prompt(
            text=message.text,
            files=message.files,
            agents=message.agents,
            skills=message.skills,
            metadata=message.metadata,
            options=message.options,
            command=message.command,
        )
        yield ev.PromptAdmitted(**at, prompt=prompt, delivery="steer")
        for index, file in enumerate(message.files or ()):
            if not is_data_uri(file.uri):
                yield ev.AttachmentStored(**at, index=index, mime=file.mime, note=ABSENT_FILE)
        yield ev.Prompted(**at, prompt=prompt, delivery="steer")
        self._owes = self._owes or message.options is None or not message.options.no_reply

    def _answer(self, message: AssistantMessage, id: str, now: int) -> Iterator[Record]:
        step: dict[str, Any] = {"session_id": self._id, "assistant_message_id": id}
        yield ev.StepStarted(timestamp=now, **step, agent=message.agent, model=message.model)
        for part in message.content:
            yield from self._part(part, step, now)
        ended = self._last = _time(message.time.completed, now)
        if message.error is not None:
            yield ev.StepFailed(timestamp=ended, **step, error=message.error, cost=message.cost, tokens=message.tokens)
            self._owes = False
            return
        yield ev.StepEnded(
            timestamp=ended,
            **step,
            finish=message.finish or "stop",
            cost=message.cost or 0.0,
            tokens=message.tokens or NO_TOKENS,
            structured=message.structured,
            rejected=message.rejected,
        )
        if message.structured is not msgspec.UNSET or not (message.rejected or any(map(_is_call, message.content))):
            self._owes = False

    def _part(self, part: Part, step: dict[str, Any], now: int) -> Iterator[Record]:
        match part:
            case TextPart():
                yield ev.TextStarted(timestamp=now, **step, text_id=part.id)
                yield ev.TextEnded(timestamp=now, **step, text_id=part.id, text=part.text)
            case ReasoningPart():
                begun = _time(part.time.created, now) if part.time is not None else now
                ended = _time(part.time.completed, begun) if part.time is not None else now
                metadata = part.provider_metadata
                yield ev.ReasoningStarted(timestamp=begun, **step, reasoning_id=part.id, provider_metadata=metadata)
                yield ev.ReasoningEnded(
                    timestamp=ended,
                    **step,
                    reasoning_id=part.id,
                    text=part.text,
                    provider_metadata=metadata,
                )
            case ToolPart():
                yield from self._call(part, step)
            case _:
                assert_never(part)

    def _call(self, part: ToolPart, step: dict[str, Any]) -> Iterator[Record]:
        state, call = part.state, {**step, "call_id": part.id}
        assert isinstance(state, (ToolCompleted, ToolError))  # others were ended before
        told = part.provider
        executed = told is not None and told.executed
        begun = _time(part.time.created)
        ran = _time(part.time.ran, begun)
        ended = _time(part.time.completed, ran)
        yield ev.ToolInputStarted(timestamp=begun, **call, name=part.name)
        yield ev.ToolInputEnded(timestamp=ran, **call, text=encode_text(state.input))
        provider = ev.Provider(executed=executed, metadata=told.metadata if told is not None else None)
        yield ev.ToolCalled(timestamp=ran, **call, tool=part.name, input=state.input, provider=provider)
        provider = ev.Provider(executed=executed, metadata=told.result_metadata if told is not None else None)
        if isinstance(state, ToolCompleted):
            yield ev.ToolSuccess(
                timestamp=ended,
                **call,
                structured=state.structured,
                content=state.content,
                result=state.result,
                provider=provider,
            )
            return
        if state.structured or state.content:
            yield ev.ToolProgress(timestamp=ran, **call, structured=state.structured, content=state.content)
        yield ev.ToolFailed(timestamp=ended, **call, error=state.error, result=state.result, provider=provider)


def _is_call(part: Part) -> bool:
    return isinstance(part, ToolPart) and (part.provider is None or not part.provider.executed)


def _time(given: int | None, default: int = 0) -> int:
    return given if given is not None and 0 <= given <= LARGEST_NUMBER else default
