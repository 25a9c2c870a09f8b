"""Messages of OpenCode 1.x, which have a header and parts, as messages of a Session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.core.bundle.opencode.foreign import (
    Json,
    amount,
    derived_id,
    is_deep,
    is_id,
    items,
    mapping,
    number,
    optional_text,
    text,
    tokens,
)
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import AgentAttachment, FileAttachment, Source
from holdfast.schema.session_message import (
    AssistantMessage,
    CompactionMessage,
    FileContent,
    ReasoningPart,
    SyntheticMessage,
    TextContent,
    TextPart,
    Time,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolTime,
    UnknownError,
    UserMessage,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from holdfast.schema.session_message import Part, SessionMessage, ToolContent

UNFINISHED_CALL = "The call had no result when the conversation was imported."
UNFINISHED_ANSWER = "The answer had no end when the conversation was imported."
STRUCTURE = ("step-start", "step-finish")
"""Parts whose content the message has too."""
LOST = {"snapshot": "snapshots of files", "patch": "snapshots of files", "retry": "retries", "subtask": "subtasks"}


class Conversion:
    """Converts the messages of one Session in their order."""

    def __init__(self, session_id: str, lost: Counter[str]) -> None:
        self.agent: str | None = None
        self.model: ModelRef | None = None
        self._session_id = session_id
        self._lost = lost
        self._compacted_by_hand = False

    def message(self, info: Json, parts: Sequence[Json]) -> Iterator[SessionMessage]:
        role = info.get("role")
        if role == "user":
            yield from self._user(info, parts)
        elif role == "assistant":
            yield self._assistant(info, parts)
        else:
            self._lost["messages of an unknown kind"] += 1

    def _user(self, info: Json, parts: Sequence[Json]) -> Iterator[SessionMessage]:
        created = number(mapping(info.get("time")).get("created"))
        id = self._id(info, created)
        self.agent = optional_text(info.get("agent")) or self.agent
        self.model = _model(mapping(info.get("model"))) or self.model
        said, added = list[str](), list[tuple[str, str]]()
        files, agents = list[FileAttachment](), list[AgentAttachment]()
        compaction = False
        for part in parts:
            match part.get("type"):
                case "text" if part.get("synthetic") is True:
                    added.append((text(part.get("id")), text(part.get("text"))))
                case "text":
                    said.append(text(part.get("text")))
                case "file":
                    files.append(_file(part))
                case "agent":
                    agents.append(AgentAttachment(name=text(part.get("name")), source=_source(part.get("source"))))
                case "compaction":
                    compaction = True
                    self._compacted_by_hand = part.get("auto") is not True
                case kind:
                    self._leave_out(kind)
        if said or files or agents or not (added or compaction):
            yield UserMessage(
                id=id,
                time=Time(created=created),
                text="\n".join(said),
                files=tuple(files) or None,
                agents=tuple(agents) or None,
            )
        for place, (part_id, content) in enumerate(added, 1):
            derived = derived_id("msg", created, self._session_id, id, part_id, str(place), counter=place)
            yield SyntheticMessage(id=derived, time=Time(created=created), session_id=self._session_id, text=content)

    def _assistant(self, info: Json, parts: Sequence[Json]) -> SessionMessage:
        time = mapping(info.get("time"))
        created = number(time.get("created"))
        completed = number(time.get("completed"), -1)
        id = self._id(info, created)
        content = [part for given in parts for part in self._content(given, created)]
        if info.get("summary") is True:
            said = "".join(part.text for part in content if isinstance(part, TextPart))
            if any(not isinstance(part, TextPart) for part in content):
                self._lost["reasoning and calls of compactions"] += 1
            reason: Literal["auto", "manual"] = "manual" if self._compacted_by_hand else "auto"
            self._compacted_by_hand = False
            return CompactionMessage(id=id, time=Time(created=created), reason=reason, summary=said, recent="")
        error = _error(info.get("error"))
        finish = optional_text(info.get("finish")) or _finish(parts)
        if error is None and completed < 0:
            error = UnknownError(message=UNFINISHED_ANSWER)
            self._lost["ends of unfinished answers"] += 1
        model = _model(info)
        return AssistantMessage(
            id=id,
            time=Time(created=created, completed=completed if completed >= 0 else created),
            agent=optional_text(info.get("agent")) or optional_text(info.get("mode")) or "build",
            model=model or ModelRef(id="unknown", provider_id="unknown"),
            content=tuple(content),
            finish=None if error is not None else finish or "stop",
            cost=amount(info.get("cost")),
            tokens=tokens(info.get("tokens")),
            error=error,
        )

    def _content(self, part: Json, created: int) -> Iterator[Part]:
        id = text(part.get("id"))
        match part.get("type"):
            case "text":
                yield TextPart(id=id, text=text(part.get("text")))
            case "reasoning":
                time = mapping(part.get("time"))
                begun = number(time.get("start"), created)
                yield ReasoningPart(
                    id=id,
                    text=text(part.get("text")),
                    time=Time(created=begun, completed=number(time.get("end"), begun)),
                )
                if part.get("metadata"):
                    self._lost["signatures of reasoning"] += 1
            case "tool":
                yield self._call(part, created)
            case "file":
                self._lost["files in answers"] += 1
            case kind:
                self._leave_out(kind)

    def _call(self, part: Json, created: int) -> ToolPart:
        state = mapping(part.get("state"))
        time = mapping(state.get("time"))
        begun = number(time.get("start"), created)
        ended = number(time.get("end"), begun)
        input, structured = self._bounded(state.get("input")), self._bounded(state.get("metadata"))
        if title := optional_text(state.get("title")):
            structured = {"title": title, **structured}
        if time.get("compacted") is not None:
            self._lost["marks of pruned outputs"] += 1
        found: ToolCompleted | ToolError
        match state.get("status"):
            case "completed":
                files = [self._output_file(mapping(file)) for file in items(state.get("attachments"))]
                content: tuple[ToolContent, ...] = (TextContent(text=text(state.get("output"))), *files)
                found = ToolCompleted(input=input, structured=structured, content=content)
            case "error":
                failure = UnknownError(message=text(state.get("error")))
                found = ToolError(input=input, structured=structured, content=(), error=failure)
            case _:
                self._lost["results of unfinished calls"] += 1
                failure = UnknownError(message=UNFINISHED_CALL)
                found = ToolError(input=input, structured=structured, content=(), error=failure)
        return ToolPart(
            id=text(part.get("callID")) or text(part.get("id")),
            name=text(part.get("tool"), "unknown"),
            state=found,
            time=ToolTime(created=begun, ran=begun, completed=ended),
        )

    def _output_file(self, file: Json) -> FileContent:
        return FileContent(
            uri=text(file.get("url")), mime=text(file.get("mime")), name=optional_text(file.get("filename"))
        )

    def _bounded(self, value: object) -> Json:
        if is_deep(value):
            self._lost["deeply nested values"] += 1
            return {}
        return mapping(value)

    def _leave_out(self, kind: object) -> None:
        if kind not in STRUCTURE:
            self._lost[LOST.get(str(kind), "parts of an unknown kind")] += 1

    def _id(self, info: Json, created: int) -> str:
        id = text(info.get("id"))
        return id if is_id("msg", id) else derived_id("msg", created, self._session_id, id)


def _file(part: Json) -> FileAttachment:
    return FileAttachment(
        uri=text(part.get("url")),
        mime=text(part.get("mime"), "application/octet-stream"),
        name=optional_text(part.get("filename")),
        source=_source(mapping(part.get("source")).get("text")),
    )


def _source(value: object) -> Source | None:
    found = mapping(value)
    if not isinstance(found.get("value"), str):
        return None
    return Source(start=number(found.get("start")), end=number(found.get("end")), text=text(found.get("value")))


def _model(value: Json) -> ModelRef | None:
    provider, id = optional_text(value.get("providerID")), optional_text(value.get("modelID"))
    return ModelRef(id=id, provider_id=provider) if provider and id else None


def _error(value: object) -> UnknownError | None:
    found = mapping(value)
    if not found:
        return None
    message = text(mapping(found.get("data")).get("message")) or text(found.get("message"))
    return UnknownError(
        message=message or text(found.get("name"), "unknown error"), code=optional_text(found.get("name"))
    )


def _finish(parts: Sequence[Json]) -> str | None:
    reasons = [optional_text(part.get("reason")) for part in parts if part.get("type") == "step-finish"]
    return reasons[-1] if reasons else None
