"""An assistant message in the making, held in memory: the same transitions as its projection, from the same events.

The next request is built from this instead of being read back, so its message must equal what a cold read gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.schema import session_event as ev
from holdfast.schema import session_message as stored
from holdfast.schema.session_message import StepSnapshot, Time, ToolProvider, ToolTime

if TYPE_CHECKING:
    from holdfast.schema.record import Record


class Answer:
    def __init__(self) -> None:
        self._header: stored.AssistantMessage | None = None
        self._parts: list[stored.Part] = []
        self._newest: dict[tuple[str, str], int] = {}

    @property
    def message(self) -> stored.AssistantMessage | None:
        """None before the step started."""
        return replace(self._header, content=tuple(self._parts)) if self._header is not None else None

    def apply(self, event: Record) -> None:
        match event:
            case ev.StepStarted():
                snapshot = StepSnapshot(start=event.snapshot) if event.snapshot is not None else None
                self._header = stored.AssistantMessage(
                    id=event.assistant_message_id,
                    time=Time(created=event.timestamp),
                    agent=event.agent,
                    model=event.model,
                    content=(),
                    snapshot=snapshot,
                )
            case ev.StepEnded() | ev.StepFailed() if self._header is not None:
                self._end(self._header, event)
            case ev.TextStarted():
                self._add("text", event.text_id, stored.TextPart(id=event.text_id, text=""))
            case ev.TextEnded():
                self._patch("text", event.text_id, text=event.text)
            case ev.ReasoningStarted():
                part = stored.ReasoningPart(
                    id=event.reasoning_id,
                    text="",
                    provider_metadata=event.provider_metadata,
                    time=Time(created=event.timestamp),
                )
                self._add("reasoning", event.reasoning_id, part)
            case ev.ReasoningEnded():
                self._end_reasoning(event)
            case ev.ToolInputStarted():
                part_ = stored.ToolPart(
                    id=event.call_id,
                    name=event.name,
                    state=stored.ToolPending(input=""),
                    time=ToolTime(created=event.timestamp),
                )
                self._add("tool", event.call_id, part_)
            case ev.ToolInputEnded():
                if isinstance(self._tool(event.call_id).state, stored.ToolPending):
                    self._patch("tool", event.call_id, state=stored.ToolPending(input=event.text))
            case ev.ToolCalled():
                self._call(event)
            case ev.ToolProgress():
                state = self._tool(event.call_id).state
                if isinstance(state, stored.ToolRunning):
                    running = replace(state, structured=event.structured, content=event.content)
                    self._patch("tool", event.call_id, state=running)
            case ev.ToolSuccess():
                self._succeed(event)
            case ev.ToolFailed():
                self._fail(event)
            case _:
                pass

    def _end(self, header: stored.AssistantMessage, event: ev.StepEnded | ev.StepFailed) -> None:
        time = replace(header.time, completed=event.timestamp)
        if isinstance(event, ev.StepFailed):
            self._header = replace(
                header, time=time, finish="error", error=event.error, cost=event.cost, tokens=event.tokens
            )
            return
        snapshot = header.snapshot
        if event.snapshot is not None or event.files is not None:
            start = snapshot.start if snapshot else None
            snapshot = StepSnapshot(start=start, end=event.snapshot, files=event.files)
        self._header = replace(
            header,
            time=time,
            finish=event.finish,
            cost=event.cost,
            tokens=event.tokens,
            snapshot=snapshot,
            structured=event.structured,
            rejected=event.rejected,
        )

    def _end_reasoning(self, event: ev.ReasoningEnded) -> None:
        index = self._newest["reasoning", event.reasoning_id]
        part = self._parts[index]
        assert isinstance(part, stored.ReasoningPart)
        assert part.time is not None
        self._parts[index] = replace(
            part,
            text=event.text,
            provider_metadata=part.provider_metadata if event.provider_metadata is None else event.provider_metadata,
            time=replace(part.time, completed=event.timestamp),
        )

    def _call(self, event: ev.ToolCalled) -> None:
        part = self._tool(event.call_id)
        if isinstance(part.state, stored.ToolPending):
            self._patch(
                "tool",
                event.call_id,
                provider=ToolProvider(executed=event.provider.executed, metadata=event.provider.metadata),
                state=stored.ToolRunning(input=event.input, structured={}, content=()),
                time=replace(part.time, ran=event.timestamp),
            )

    def _succeed(self, event: ev.ToolSuccess) -> None:
        state = self._tool(event.call_id).state
        if isinstance(state, stored.ToolRunning):
            completed = stored.ToolCompleted(
                input=state.input,
                structured=event.structured,
                content=event.content,
                output_paths=event.output_paths,
                result=event.result,
            )
            self._settle(event, completed)

    def _fail(self, event: ev.ToolFailed) -> None:
        state = self._tool(event.call_id).state
        if isinstance(state, stored.ToolRunning):
            kept = (state.input, state.structured, state.content)
        elif isinstance(state, stored.ToolPending):
            kept = ({}, {}, ())
        else:
            return
        failed = stored.ToolError(
            input=kept[0], structured=kept[1], content=kept[2], error=event.error, result=event.result
        )
        self._settle(event, failed)

    def _settle(self, event: ev.ToolSuccess | ev.ToolFailed, state: stored.ToolState) -> None:
        part = self._tool(event.call_id)
        before = part.provider or ToolProvider(executed=False)
        provider = replace(
            before,
            executed=before.executed or event.provider.executed,
            result_metadata=before.result_metadata if event.provider.metadata is None else event.provider.metadata,
        )
        time = replace(part.time, completed=event.timestamp)
        self._patch("tool", event.call_id, provider=provider, state=state, time=time)

    def _tool(self, call_id: str) -> stored.ToolPart:
        part = self._parts[self._newest["tool", call_id]]
        assert isinstance(part, stored.ToolPart)
        return part

    def _add(self, kind: str, key: str, part: stored.Part) -> None:
        self._newest[kind, key] = len(self._parts)
        self._parts.append(part)

    def _patch(self, kind: str, key: str, **fields: object) -> None:
        index = self._newest[kind, key]
        self._parts[index] = replace(self._parts[index], **fields)
