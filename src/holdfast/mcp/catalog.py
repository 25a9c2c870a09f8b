"""What a server offers: tools, resources, templates of resources, prompts."""

from __future__ import annotations

from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from holdfast.mcp.wire import Json, Wire, meta_field

T = TypeVar("T")


class ToolAnnotations(Wire):
    """Hints of the server. They are claims: nothing may be permitted because of them."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class Tool(Wire):
    """`input_schema` and `output_schema` are as the server sent them: nothing has checked that they are schemas."""

    name: str
    input_schema: Json
    title: str | None = None
    description: str | None = None
    output_schema: Json | None = None
    annotations: ToolAnnotations | None = None
    meta: Json | None = meta_field()


class Resource(Wire):
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Json | None = None
    meta: Json | None = meta_field()


class ResourceTemplate(Wire):
    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Json | None = None
    meta: Json | None = meta_field()


class PromptArgument(Wire):
    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(Wire):
    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    meta: Json | None = meta_field()


class _Execution(Wire):
    task_support: Any = None


class _Executed(Wire):
    execution: _Execution | None = None


def needs_task(raw: msgspec.Raw) -> bool:
    """Whether the tool that was sent like this can only be called as a task (2025-11-25)."""
    try:
        found = msgspec.json.decode(raw, type=_Executed).execution
    except ValueError:
        return False
    return found is not None and found.task_support == "required"


Offered: TypeAlias = Tool | Resource | ResourceTemplate | Prompt


class Rejected(msgspec.Struct, frozen=True):
    """An entry of a list that cannot be used. `name` is empty if it has none."""

    name: str
    reason: str


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """The pages of a list, in the order of the server. `rejected` are malformed entries and repeated names, a bounded
    number of them. `incomplete` tells why the list ends before the server's end; None if it is whole."""

    items: tuple[T, ...]
    rejected: tuple[Rejected, ...] = ()
    incomplete: str | None = None
    ttl_ms: int | None = None
    """How long the server considers it fresh (2026-07-28)."""
