"""The blocks of a prompt as an input of a Session: text, images, resources.

A link to a file of this machine and content that comes with the prompt become attachments. Of any other link the model
reads the address."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from holdfast.acp.errors import invalid
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern
from holdfast.schema.prompt import FileInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.acp.requests import ContentBlock, ResourceContents

NO_AUDIO = "Holdfast takes no audio: promptCapabilities.audio is false"
_COMMAND = pattern(r"/([^\s/]+(?:/[^\s/]+)*)(?:\s+([\s\S]*))?\Z")


class GivenPrompt(Frozen):
    text: str
    files: tuple[FileInput, ...]

    def command(self) -> tuple[str, str] | None:
        """The name and the arguments, if the text begins like a call of a command."""
        found = _COMMAND.match(self.text.strip())
        return (found[1], (found[2] or "").strip()) if found is not None else None


def given_prompt(blocks: Sequence[ContentBlock]) -> GivenPrompt:
    texts: list[str] = []
    files: list[FileInput] = []
    for block in blocks:
        match block.type:
            case "text":
                texts.append(_needed(block.text, "text"))
            case "image":
                kind = _needed(block.mime_type, "mimeType")
                files.append(_data(_needed(block.data, "data"), kind, block.uri or "image"))
            case "resource_link":
                uri = _needed(block.uri, "uri")
                if _is_file(uri):
                    files.append(FileInput(uri=uri, name=block.name or _name(uri)))
                    texts.append(f"@{block.name or _name(uri)}")
                else:
                    texts.append(f"[{block.name or uri}]({uri})")
            case "resource":
                if block.resource is None:
                    raise invalid("A block `resource` needs the field `resource`")
                files.append(_embedded(block.resource))
                texts.append(f"@{_name(block.resource.uri)}")
            case "audio":
                raise invalid(NO_AUDIO)
            case other:
                raise invalid(f"A prompt has no blocks of type {other[:50]!r}")
    text = _joined(texts)
    if not text.strip() and not files:
        raise invalid("The prompt is empty")
    return GivenPrompt(text=text, files=tuple(files))


def _joined(texts: Sequence[str]) -> str:
    """Editors split one text at its mentions: parts are put together as they were."""
    result = ""
    for text in texts:
        gap = " " if result and not result[-1].isspace() and text[:1] and not text[0].isspace() else ""
        result += gap + text
    return result


def _embedded(resource: ResourceContents) -> FileInput:
    name = _name(resource.uri)
    if resource.text is not None:
        data = base64.b64encode(resource.text.encode(errors="replace")).decode()
        return _data(data, "text/plain", name)
    if resource.blob is None:
        raise invalid("A resource needs `text` or `blob`")
    return _data(resource.blob, resource.mime_type or "application/octet-stream", name)


def _data(data: str, mime: str, name: str) -> FileInput:
    return FileInput(uri=f"data:{mime};base64,{data}", name=name)


def _is_file(uri: str) -> bool:
    parts = urlsplit(uri)
    return parts.scheme == "file" and parts.netloc in ("", "localhost") and bool(parts.path)


def _name(uri: str) -> str:
    path = unquote(urlsplit(uri).path) or uri
    return path.rsplit("/", 1)[-1] or path


def _needed(value: str | None, field: str) -> str:
    if value is None:
        raise invalid(f"A block of the prompt has no field `{field}`")
    return value
