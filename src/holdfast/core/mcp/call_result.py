"""What becomes of the result of an MCP tool: what the model reads, and what API clients read.

Invariants
- Nothing is dropped in silence: what cannot be used is a note in its place.
- A result never fails because of its size: the server has acted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.mcp.stranger_text import one_line
from holdfast.core.tool.registration import MEDIA_BYTES, MEDIA_PARTS
from holdfast.core.tool.tool import CallOutput, ToolFailure
from holdfast.llm import json_schema
from holdfast.mcp import content as mcp
from holdfast.schema.codec import encode
from holdfast.schema.nesting import is_nested_deeper
from holdfast.schema.pattern import pattern
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.mcp.results import ToolResult
    from holdfast.schema.session_message import ToolContent

ITEMS = 1_000
STRUCTURED_BYTES = 256 * 1024
URI_CHARACTERS = 500
LABEL_CHARACTERS = 200
NOTHING = "The tool returned nothing."
FAILED = "The tool failed and does not say why."
MISMATCH = "[The structured result does not match the output schema that the server declares: {why}]"
TOO_MANY = f"a result has at most {MEDIA_PARTS} files with {MEDIA_BYTES} bytes"
LEFT_OUT = "[left out: {what}]"

_MIME = pattern(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,100}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,100}")


def call_output(result: ToolResult, output_schema: dict[str, Any] | None) -> CallOutput:
    """Raises ToolFailure with the tool's own text if the tool failed."""
    content = list(_bounded_media(_content(result.content)))
    structured = result.structured if result.has_structured else None
    if result.is_error:
        raise ToolFailure(_text(content) or (_json(structured) if result.has_structured else "") or FAILED)
    if result.has_structured:
        if not content:
            content.append(TextContent(text=_json(structured)))
        if output_schema is not None and (wrong := json_schema.violations(output_schema, structured, most=3)):
            content.append(TextContent(text=MISMATCH.format(why=one_line("; ".join(wrong), 500))))
    if not content:
        content.append(TextContent(text=NOTHING))
    return CallOutput(_stored(structured), tuple(content))


def _content(items: Iterable[mcp.Content]) -> Iterator[ToolContent]:
    for number, item in enumerate(items):
        if number == ITEMS:
            yield _note(f"further content; at most {ITEMS} items are read")
            return
        match item:
            case mcp.TextContent(text=text):
                yield TextContent(text=text)
            case mcp.ImageContent() | mcp.AudioContent():
                yield _file(item.data, item.mime_type)
            case mcp.EmbeddedResource(resource=resource):
                yield _resource(resource)
            case mcp.ResourceLink():
                yield TextContent(text=_link(item))
            case mcp.UnknownContent(reason=reason):
                yield _note(reason)


def _bounded_media(content: Iterable[ToolContent]) -> Iterator[ToolContent]:
    files = size = 0
    for item in content:
        if isinstance(item, FileContent):
            files, size = files + 1, size + len(item.uri) * 3 // 4
            if files > MEDIA_PARTS or size > MEDIA_BYTES:
                yield _note(f"{item.name or item.mime}; {TOO_MANY}")
                continue
        yield item


def _resource(resource: mcp.ResourceContents) -> ToolContent:
    uri = one_line(resource.uri, URI_CHARACTERS)
    if resource.text is not None:
        return TextContent(text=f"[resource: {uri}]\n{resource.text}")
    return _file(resource.blob or "", resource.mime_type or "", uri)


def _file(data: str, mime: str, name: str | None = None) -> FileContent:
    """Whether the bytes are what they are said to be is looked at later, as for every tool."""
    kind = mime.partition(";")[0].strip()
    if _MIME.fullmatch(kind) is None:
        kind = "application/octet-stream"
    return FileContent(uri=f"data:{kind};base64,{data}", mime=kind, name=name)


def _link(link: mcp.ResourceLink) -> str:
    facts = [link.mime_type, f"{link.size} bytes" if link.size is not None else None, link.description]
    told = "; ".join(one_line(fact, LABEL_CHARACTERS) for fact in facts if fact)
    label = one_line(link.title or link.name, LABEL_CHARACTERS)
    return f"[link to a resource: {label}, {one_line(link.uri, URI_CHARACTERS)}{f' ({told})' if told else ''}]"


def _note(what: str) -> TextContent:
    return TextContent(text=LEFT_OUT.format(what=one_line(what, 500)))


def _text(content: Iterable[ToolContent]) -> str:
    return "\n".join(item.text for item in content if isinstance(item, TextContent)).strip()


def _json(value: Any) -> str:
    return msgspec.json.format(encode(value), indent=2).decode()


def _stored(structured: Any) -> dict[str, Any]:
    """Empty if it is too large for the log; then the model and a managed file have its text."""
    if structured is None or is_nested_deeper(structured) or len(encode(structured)) > STRUCTURED_BYTES:
        return {}
    return structured if isinstance(structured, dict) else {"value": structured}
