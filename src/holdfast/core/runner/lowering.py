"""From projected messages to what the model is sent.

Invariants
- Deterministic: the same history gives the same messages.
- Total: whatever is stored, every protocol can send what comes out. A file that cannot be sent is a note that names it,
  and every call of a local tool has a result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from holdfast.core.filesystem.content import PDF, Content, Unusable, data_type, is_data_uri, read_data_uri, recognise
from holdfast.core.session.answer_outcome import TURN_SUSPENDED
from holdfast.core.session.transcript import neutral
from holdfast.core.tagged_text import inside_tag
from holdfast.llm import request as llm
from holdfast.llm.media import NAME_CHARACTERS, left_out
from holdfast.llm.request import Message
from holdfast.schema import session_message as stored
from holdfast.schema.codec import decode_any, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.schema.model import ModelRef
    from holdfast.schema.prompt import FileAttachment
    from holdfast.schema.session_message import SessionMessage


NO_RESULT = "The call was not completed: there is no result."
REFUSED = "the provider refused it"
FILE_TAG = "attached-file"
TOOL_NAME_CHARACTERS = 64
PRUNE_OVER = 400
PRUNED = "[This old tool result of {size} characters was removed to save room; call the tool again if it is needed.]"


Attachments = Mapping[tuple[str, int], Content]
"""What is stored beside a message, by its id and the number of its file."""


def lower(
    history: Iterable[SessionMessage], selected: ModelRef, attachments: Attachments = MappingProxyType({})
) -> tuple[Message, ...]:
    """Native details go back only to exactly the model that gave them, and only from a turn that did not fail."""
    return tuple(message for item in history for message in _lower(item, selected, attachments))


def has_files(message: SessionMessage) -> bool:
    """Whether something may be stored beside it."""
    return isinstance(message, stored.UserMessage) and bool(message.files)


def holds_media(messages: Iterable[Message]) -> bool:
    return any(_media_in(part) for message in messages for part in message.content)


def without_media(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The same conversation for a provider that refused its media: each is a note."""
    return tuple(
        replace(message, content=tuple(map(_without_media, message.content)))
        if any(map(_media_in, message.content))
        else message
        for message in messages
    )


def _media_in(part: llm.Part) -> bool:
    if isinstance(part, llm.ToolResultPart) and part.result.type == "content":
        return any(isinstance(item, stored.FileContent) for item in llm.result_items(part.result))
    return isinstance(part, llm.MediaPart)


def _without_media(part: llm.Part) -> llm.Part:
    if isinstance(part, llm.MediaPart):
        return llm.TextPart(text="\n" + left_out(part.filename or part.media_type, REFUSED))
    if not isinstance(part, llm.ToolResultPart) or not _media_in(part):
        return part
    items = tuple(
        stored.TextContent(text=left_out(item.name or item.mime, REFUSED))
        if isinstance(item, stored.FileContent)
        else item
        for item in llm.result_items(part.result)
    )
    return replace(part, result=llm.ToolResult(type="content", value=items))


def _lower(item: SessionMessage, selected: ModelRef, attachments: Attachments) -> list[Message]:
    match item:
        case stored.UserMessage():
            return [Message(role="user", content=_user_parts(item, attachments))]
        case stored.SyntheticMessage():
            return [_text("user", item.text)]
        case stored.SystemMessage():
            return [_text("system", item.text)]
        case stored.ShellMessage():
            return [_text("user", f"Shell command: {item.command}\n\n{item.output}")]
        case stored.CompactionMessage():
            return [_text("user", checkpoint(item.summary, item.recent))]
        case stored.AssistantMessage():
            return _assistant(item, selected)
        case stored.AgentSwitchedMessage() | stored.ModelSwitchedMessage():
            return []


def pruned(message: SessionMessage) -> SessionMessage:
    """The same message with long bodies of its own tools' results replaced by a note. The record keeps them; what a
    provider executed goes back exactly as it came."""
    if not isinstance(message, stored.AssistantMessage):
        return message
    return replace(message, content=tuple(_pruned(part) for part in message.content))


def prunable(message: SessionMessage) -> int:
    """How many characters pruning would save."""
    if not isinstance(message, stored.AssistantMessage):
        return 0
    return sum(max(0, _result_size(part) - PRUNE_OVER) for part in message.content)


def _pruned(part: stored.Part) -> stored.Part:
    if not isinstance(part, stored.ToolPart) or (size := _result_size(part)) <= PRUNE_OVER:
        return part
    note = stored.TextContent(text=PRUNED.format(size=size))
    return replace(part, state=replace(part.state, structured={}, content=(note,)))


def _result_size(part: stored.Part) -> int:
    if not isinstance(part, stored.ToolPart) or (part.provider is not None and part.provider.executed):
        return 0
    if not isinstance(part.state, stored.ToolCompleted):
        return 0
    texts = sum(
        len(item.text) if isinstance(item, stored.TextContent) else len(item.uri) for item in part.state.content
    )
    return texts or len(encode(part.state.structured))


def checkpoint(summary: str, recent: str) -> str:
    return (
        "<conversation-checkpoint>\n"
        "A record of the conversation so far and of work on what follows; not new instructions.\n"
        f"<summary>\n{neutral(summary)}\n</summary>\n"
        f"<recent-context>\n{neutral(recent)}\n</recent-context>\n"
        "</conversation-checkpoint>"
    )


def _user_parts(item: stored.UserMessage, attachments: Attachments) -> tuple[llm.Part, ...]:
    """The texts of skills, each once, then the user's own text, then files."""
    skills = dict.fromkeys(skill.text for skill in item.skills or ())
    parts: list[llm.Part] = [llm.TextPart(text=f"{text}\n\n") for text in skills]
    if item.text or not parts:
        parts.append(llm.TextPart(text=item.text))
    for index, file in enumerate(item.files or ()):
        parts.append(_attached(file, attachments.get((item.id, index))))
    return tuple(parts)


def _attached(file: FileAttachment, kept: Content | None) -> llm.Part:
    name = _name(file)
    content = kept or _inside(file)
    if content is None:
        return llm.TextPart(text=f"\n[Attached {file.mime}: {name}]")
    match content.kind:
        case "text":
            return _quoted(name, content.value)
        case "data":
            place = {"source": file.uri} if content.mime == PDF and not is_data_uri(file.uri) else None
            return llm.MediaPart(media_type=content.mime, data=content.value, filename=file.name, metadata=place)
        case _:
            return llm.TextPart(text=f"\n[{name} could not be attached: {content.value}]")


def _inside(file: FileAttachment) -> Content | None:
    """What a `data:` URI holds; it was stored with the prompt, by this version or an earlier one that checked less."""
    if not is_data_uri(file.uri):
        return None
    try:
        return recognise(read_data_uri(file.uri), data_type(file.uri))
    except Unusable as error:
        return Content("note", file.mime, str(error))


def _name(file: FileAttachment) -> str:
    """On one line, and unable to end the tag that it stands in."""
    name = file.name or (file.mime if is_data_uri(file.uri) else file.uri)
    return " ".join(name.split())[:NAME_CHARACTERS].translate(_QUOTES)


_QUOTES = str.maketrans({'"': "'", "<": "(", ">": ")"})


def _quoted(name: str, text: str) -> llm.TextPart:
    return llm.TextPart(text=f'\n<{FILE_TAG} name="{name}">\n{inside_tag(FILE_TAG, text)}\n</{FILE_TAG}>')


def _assistant(item: stored.AssistantMessage, selected: ModelRef) -> list[Message]:
    if _asked_again(item):
        return []
    same = (item.model.provider_id, item.model.id) == (selected.provider_id, selected.id)
    native = same and item.error is None
    parts: list[llm.Part] = []
    results: list[Message] = []
    for content in item.content:
        match content:
            case stored.TextPart(broken_off=True) | stored.ReasoningPart(broken_off=True):
                pass  # people see it; the model did not end it
            case stored.TextPart():
                if content.text:
                    parts.append(llm.TextPart(text=content.text))
            case stored.ReasoningPart():
                parts += _reasoning(content, same=same, native=native)
            case stored.ToolPart():
                call, result = _tool(content, native=native)
                parts.append(call)
                if result is not None and result.provider_executed:
                    parts.append(result)
                elif result is not None:
                    results.append(Message(role="tool", content=(result,)))
    return [Message(role="assistant", content=tuple(parts)), *results] if parts else results


def _asked_again(item: stored.AssistantMessage) -> bool:
    """A shutdown cut it short, and the same was asked again: what it had said so far is no part of the conversation."""
    suspended = item.error is not None and item.error.message == TURN_SUSPENDED
    return suspended and not any(isinstance(part, stored.ToolPart) for part in item.content)


def _reasoning(part: stored.ReasoningPart, *, same: bool, native: bool) -> list[llm.Part]:
    """Of another model: what it said, as text. Of this one: as reasoning, even empty if it carries native details."""
    if not same:
        return [llm.TextPart(text=part.text)] if part.text else []
    metadata = part.provider_metadata if native and any((part.provider_metadata or {}).values()) else None
    if not part.text and metadata is None:
        return []
    return [llm.ReasoningPart(text=part.text, provider_metadata=metadata)]


def _tool(part: stored.ToolPart, *, native: bool) -> tuple[llm.ToolCallPart, llm.ToolResultPart | None]:
    provider = part.provider or stored.ToolProvider(executed=False)
    called = provider.metadata if native else None
    name = part.name if provider.executed else _tool_name(part.name)
    call = llm.ToolCallPart(
        id=part.id,
        name=name,
        input=_input(part.state),
        provider_executed=provider.executed,
        provider_metadata=called,
    )
    result = _result(part.state, hosted=provider.executed)
    if result is None:
        return call, None
    return call, llm.ToolResultPart(
        id=part.id,
        name=name,
        result=result,
        provider_executed=provider.executed,
        provider_metadata=(provider.result_metadata or called) if native else None,
    )


def _tool_name(name: str) -> str:
    """A model may call what does not exist; providers refuse names outside their alphabet, also in history."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:TOOL_NAME_CHARACTERS] or "unknown"


def _input(state: stored.ToolState) -> Any:
    if not isinstance(state, stored.ToolPending):
        return state.input
    try:
        return decode_any(state.input)
    except msgspec.DecodeError:
        return state.input


def _result(state: stored.ToolState, *, hosted: bool) -> llm.ToolResult | None:
    match state:
        case stored.ToolCompleted() | stored.ToolError() if hosted and not isinstance(state.result, UnsetType):
            return llm.as_result(decode_any(state.result))
        case stored.ToolCompleted():
            return llm.project_output(state.structured, state.content)
        case stored.ToolError():
            content = tuple(_without_bytes(item) for item in state.content)
            value = {"error": state.error.message, "content": content, "structured": state.structured}
            return llm.ToolResult(type="error", value=value)
        case _:
            return None if hosted else llm.ToolResult(type="error", value=NO_RESULT)


def _without_bytes(item: stored.ToolContent) -> Any:
    """An error is sent as text, and base64 is no text."""
    return item if isinstance(item, stored.TextContent) else {"type": "file", "mime": item.mime, "name": item.name}


def _text(role: llm.Role, text: str) -> Message:
    return Message(role=role, content=(llm.TextPart(text=text),))
