"""Content of tool results, prompts and resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from holdfast.mcp.errors import shown
from holdfast.mcp.wire import Json, Wire, meta_field

if TYPE_CHECKING:
    from collections.abc import Iterable


class TextContent(Wire, tag_field="type", tag="text"):
    text: str
    annotations: Json | None = None
    meta: Json | None = meta_field()


class ImageContent(Wire, tag_field="type", tag="image"):
    """`data` is base64, as it was sent: nothing has checked it."""

    data: str
    mime_type: str
    annotations: Json | None = None
    meta: Json | None = meta_field()


class AudioContent(Wire, tag_field="type", tag="audio"):
    """`data` is base64, as it was sent: nothing has checked it."""

    data: str
    mime_type: str
    annotations: Json | None = None
    meta: Json | None = meta_field()


class ResourceContents(Wire):
    """One of `text` and `blob` (base64) is set."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    meta: Json | None = meta_field()

    def __post_init__(self) -> None:
        if self.text is None and self.blob is None:
            raise ValueError("neither `text` nor `blob`")


class EmbeddedResource(Wire, tag_field="type", tag="resource"):
    resource: ResourceContents
    annotations: Json | None = None
    meta: Json | None = meta_field()


class ResourceLink(Wire, tag_field="type", tag="resource_link"):
    """A resource that can be read. It need not be in the server's list."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Json | None = None
    meta: Json | None = meta_field()


class UnknownContent(Wire):
    """Content of a kind that is not known here, or that is malformed. `reason` tells which; nothing is dropped in
    silence."""

    kind: str
    reason: str


KnownContent: TypeAlias = TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink
Content: TypeAlias = KnownContent | UnknownContent

_KNOWN: msgspec.json.Decoder[KnownContent] = msgspec.json.Decoder(KnownContent)
_KINDS = frozenset({"text", "image", "audio", "resource", "resource_link"})


class _Kind(msgspec.Struct):
    type: Any = None


_KIND = msgspec.json.Decoder(_Kind)


def read_content(raw: msgspec.Raw) -> Content:
    try:
        return _KNOWN.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        try:
            kind = _KIND.decode(raw).type
        except (msgspec.DecodeError, ValueError, RecursionError):
            kind = None
        name = shown(kind, 60) if isinstance(kind, str) else "none"
        reason = shown(str(error)) if name in _KINDS else f"content of the kind {name!r} is not supported"
        return UnknownContent(kind=name, reason=reason)


def read_contents(items: Iterable[msgspec.Raw]) -> tuple[Content, ...]:
    return tuple(map(read_content, items))
