"""Results of calls, as a client returns them and a server sends them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.mcp.content import Content, ResourceContents
from holdfast.mcp.wire import Json


class ToolResult(msgspec.Struct, frozen=True):
    """`structured` is UNSET if there is none. `is_error` means that the tool failed; `content` tells why."""

    content: tuple[Content, ...]
    structured: Any = msgspec.UNSET
    is_error: bool = False
    meta: Json | None = None

    @property
    def has_structured(self) -> bool:
        return self.structured is not msgspec.UNSET


class ReadResult(msgspec.Struct, frozen=True):
    """The contents of a resource, or of several below it."""

    contents: tuple[ResourceContents, ...]


class PromptMessage(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: Content


class PromptResult(msgspec.Struct, frozen=True):
    messages: tuple[PromptMessage, ...]
    description: str | None = None


class Completion(msgspec.Struct, frozen=True):
    values: tuple[str, ...]
    total: int | None = None
    has_more: bool = False


class Progress(msgspec.Struct, frozen=True):
    progress: float
    total: float | None = None
    message: str | None = None


class LogMessage(msgspec.Struct, frozen=True):
    level: str
    data: Any
    logger: str | None = None
