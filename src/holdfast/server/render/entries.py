"""From stored messages to the entries of a conversation, for a page or for another reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import msgspec

from holdfast.schema.frozen import Frozen
from holdfast.schema.rendered import (
    AssistantEntry,
    CompactionEntry,
    MarkEntry,
    RenderedCall,
    RenderedFile,
    RenderedReasoning,
    RenderedText,
    ShellEntry,
    UserEntry,
)
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
    ToolPending,
    ToolRunning,
    UserMessage,
)
from holdfast.server.render.ansi import plain, terminal_html
from holdfast.server.render.cache import RenderCache
from holdfast.server.render.call_line import changed_lines, child_of, outcome_of, peek_of, title_of
from holdfast.server.render.markdown import markdown_html
from holdfast.server.render.sanitize import clean
from holdfast.server.render.text import bounded, encodable, one_line, visible

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from holdfast.core.session.stored_conversation import InputRow
    from holdfast.schema.prompt import FileAttachment
    from holdfast.schema.rendered import CallStatus, Entry, RenderedPart, TextFormat
    from holdfast.schema.session_message import Part, SessionMessage, ToolPart

    _MarkKind = Literal["context", "agent", "model", "synthetic"]

MARKDOWN = 200_000
"""Characters of a text that is given as it was written."""
TEXT = 20_000
"""Characters of a prompt that are given as they were written."""
OUTPUT = 100_000
"""Characters of a shell message's output."""
INPUT = 2_000
"""Characters of an input that the model is writing."""
TITLE = 200
URI = 500
CACHE = RenderCache()
CONTEXT_CHANGED = "The model was told what changed around it"


class Surroundings(Frozen):
    """What an entry needs beside its message."""

    directory: str
    form: TextFormat = "html"
    inputs: Mapping[str, InputRow] = {}
    turns: Mapping[str, int] = {}
    """Numbers of turns by message."""
    requests: Mapping[tuple[str, str], str] = {}
    """Open requests by message and call."""


class Shown(Frozen):
    """A text in the form that was asked for. The other one is empty."""

    html: str = ""
    text: str = ""


def shown_markdown(text: str, form: TextFormat) -> Shown:
    if form == "text":
        return Shown(text=bounded(encodable(text), MARKDOWN, line=MARKDOWN)[0])
    return Shown(html=CACHE.get("markdown", text, markdown_html) if text else "")


def shown_output(text: str, form: TextFormat) -> Shown:
    """What a program wrote: as the inside of `<pre>`, or with its sequences for terminals."""
    output = bounded(encodable(text), OUTPUT)[0]
    if form == "text":
        return Shown(text=output)
    return Shown(html=CACHE.get("terminal", output, lambda given: clean(terminal_html(given))))


def entry_of(message: SessionMessage, seq: int, around: Surroundings) -> Entry:
    match message:
        case UserMessage():
            return _user(message, seq, around.inputs.get(message.id), around.form)
        case AssistantMessage():
            return _assistant(message, seq, around)
        case ShellMessage():
            output = shown_output(message.output, around.form)
            return ShellEntry(
                id=message.id,
                seq=seq,
                time=message.time,
                command=message.command[:TEXT],
                html=output.html,
                text=output.text,
                exit=message.exit,
                open=message.time.completed is None,
            )
        case CompactionMessage():
            summary = shown_markdown(message.summary, around.form)
            return CompactionEntry(
                id=message.id,
                seq=seq,
                time=message.time,
                reason=message.reason,
                html=summary.html,
                text=summary.text,
            )
        case SystemMessage():
            return _mark(message, seq, "context", CONTEXT_CHANGED, shown_markdown(message.text, around.form))
        case SyntheticMessage():
            title = message.description or message.text
            return _mark(message, seq, "synthetic", title, shown_markdown(message.text, around.form))
        case AgentSwitchedMessage():
            return _mark(message, seq, "agent", message.agent)
        case ModelSwitchedMessage():
            return _mark(message, seq, "model", f"{message.model.provider_id}/{message.model.id}")
        case never:
            assert_never(never)


def _user(message: UserMessage, seq: int, given: InputRow | None, form: TextFormat) -> UserEntry:
    command = f"/{message.command.command} {message.command.arguments}" if message.command is not None else None
    return UserEntry(
        id=message.id,
        seq=seq,
        time=message.time,
        html=shown_markdown(message.text, form).html if form == "html" else "",
        text=encodable(message.text[:TEXT]),
        files=tuple(map(_file, message.files or ())),
        delivery=given.delivery if given is not None else None,
        admitted=given.admitted if given is not None else None,
        command=one_line(command, TITLE) if command is not None else None,
    )


def _file(file: FileAttachment) -> RenderedFile:
    shown = file.uri if len(file.uri) <= URI and not file.uri.startswith("data:") else None
    name = file.name or (shown or "file").rpartition("/")[2]
    return RenderedFile(name=one_line(name, TITLE), mime=file.mime[:TITLE], uri=shown)


def _assistant(message: AssistantMessage, seq: int, around: Surroundings) -> AssistantEntry:
    is_open = message.time.completed is None
    return AssistantEntry(
        id=message.id,
        seq=seq,
        time=message.time,
        turn=around.turns.get(message.id),
        agent=message.agent,
        model=message.model,
        parts=tuple(_part(part, message.id, around, is_open=is_open) for part in message.content),
        open=is_open,
        finish=message.finish,
        error=message.error.message[:TEXT] if message.error is not None else None,
        cost=message.cost,
        tokens=message.tokens,
        structured=None if message.structured is msgspec.UNSET else message.structured,
    )


def _part(part: Part, message_id: str, around: Surroundings, *, is_open: bool) -> RenderedPart:
    """The text of a block is stored when it ends, so one without text is still open."""
    match part:
        case TextPart():
            shown = shown_markdown(part.text, around.form)
            return RenderedText(
                id=part.id,
                html=shown.html,
                text=shown.text,
                open=is_open and not part.text,
                partial=_so_far(part.partial, MARKDOWN, around.form),
                broken_off=bool(part.broken_off),
            )
        case ReasoningPart():
            ended = part.time is not None and part.time.completed is not None
            shown = shown_markdown(part.text, around.form)
            return RenderedReasoning(
                id=part.id,
                html=shown.html,
                text=shown.text,
                open=is_open and not ended,
                partial=_so_far(part.partial, MARKDOWN, around.form),
                broken_off=bool(part.broken_off),
                time=part.time,
            )
    return _call(part, message_id, around)


def _call(part: ToolPart, message_id: str, around: Surroundings) -> RenderedCall:
    state = part.state
    request_id = around.requests.get((message_id, part.id)) if isinstance(state, ToolPending | ToolRunning) else None
    status: CallStatus = "waiting" if request_id is not None else state.status
    additions, deletions = changed_lines(state)
    return RenderedCall(
        id=part.id,
        name=one_line(part.name, TITLE),
        status=status,
        title=title_of(part, around.directory),
        outcome=outcome_of(part),
        additions=additions,
        deletions=deletions,
        peek=peek_of(part),
        child_id=child_of(part),
        request_id=request_id,
        time=part.time,
        body=not isinstance(state, ToolPending),
        partial=_so_far(state.partial, INPUT, around.form) if isinstance(state, ToolPending) else "",
    )


def _so_far(partial: str | None, most: int, form: TextFormat) -> str:
    """The end of what is kept of an open block, as it is written. A page gets it as its live text: no HTML, and what
    would be invisible can be seen."""
    text = encodable((partial or "")[-most:])
    return visible(plain(text)) if form == "html" else text


def _mark(message: SessionMessage, seq: int, kind: _MarkKind, title: str, body: Shown | None = None) -> MarkEntry:
    body = body or Shown()
    return MarkEntry(
        id=message.id,
        seq=seq,
        time=message.time,
        kind=kind,
        title=one_line(title, TITLE),
        html=body.html,
        text=body.text,
    )
