"""What an MCP server made of the call of a prompt, as the text of a prompt and its attachments.

Invariants
- It is text of a stranger: nothing in it is a mention, a placeholder or a shell command.
- Nothing of it is dropped in silence: what is not text is attached, or a note names it."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from holdfast.core.filesystem.content import PLAIN, UNKNOWN
from holdfast.core.mcp.stranger_text import one_line
from holdfast.mcp.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern
from holdfast.schema.prompt import FileAttachment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.mcp.content import Content

SHOWN = 200
ADDRESS_CHARACTERS = 2000
MOST_NOTES = 20
LEFT_OUT = "The prompt {name} has content that was left out: {reason}"
MORE_LEFT_OUT = "Of the prompt {name} {count} more parts were left out"

_MEDIA_TYPE = pattern(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")


class FetchedPrompt(Frozen):
    """`own` is where the caller's arguments begin, which follow the text of the server."""

    text: str
    own: int
    files: tuple[FileAttachment, ...] = ()
    notes: tuple[str, ...] = ()


def fetched_prompt(name: str, contents: Iterable[Content], appended: str) -> FetchedPrompt:
    """`name` is that of the command."""
    texts: list[str] = []
    files: list[FileAttachment] = []
    notes: list[str] = []
    for content in contents:
        match content:
            case TextContent(text=text):
                texts.append(text)
            case ResourceLink(uri=uri):
                texts.append(one_line(uri, ADDRESS_CHARACTERS))
            case ImageContent(data=data, mime_type=mime) | AudioContent(data=data, mime_type=mime):
                _attach(name, files, notes, data, mime, f"{name} {len(files) + 1}")
            case EmbeddedResource(resource=resource):
                own = _encoded(resource.text) if resource.text is not None else resource.blob or ""
                kind = resource.mime_type or (PLAIN if resource.text is not None else UNKNOWN)
                _attach(name, files, notes, own, kind, one_line(resource.uri, SHOWN))
            case _:
                notes.append(LEFT_OUT.format(name=name, reason=one_line(content.reason, SHOWN)))
    text = "\n".join(texts)
    begin = len(text)
    if appended:
        text = f"{text}\n\n{appended}"
        begin += 2
    if len(notes) > MOST_NOTES:
        notes[MOST_NOTES - 1 :] = [MORE_LEFT_OUT.format(name=name, count=len(notes) - MOST_NOTES + 1)]
    return FetchedPrompt(text, begin, tuple(files), tuple(notes))


def _attach(name: str, files: list[FileAttachment], notes: list[str], data: str, mime: str, label: str) -> None:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        notes.append(LEFT_OUT.format(name=name, reason=f"the base64 of {label} is broken"))
        return
    kind = mime.partition(";")[0].strip().lower()
    kind = kind if _MEDIA_TYPE.fullmatch(kind) else UNKNOWN
    files.append(FileAttachment(uri=f"data:{kind};base64,{data}", mime=kind, name=label))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode()
