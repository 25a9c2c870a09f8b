"""What a tool is: a description, an input type, an output type and one executor. Its name comes from where it is
registered, and nothing outside this package calls its executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.core.tool.codec import JsonSchema
    from holdfast.schema.session_message import ToolContent

In = TypeVar("In")
Out = TypeVar("Out")


class ToolFailure(HoldfastError):
    """An expected failure whose message the model may read and act on."""


class ToolContext(Frozen):
    """Who calls. Everything else a tool needs, it got when it was made."""

    session_id: str
    agent: str
    assistant_message_id: str
    tool_call_id: str


class Tool(Frozen, Generic[In, Out], eq=False):
    description: str
    input: type[In] | JsonSchema
    """Whatever msgspec can convert to: a Struct, a dataclass, a TypedDict; or a pydantic model; or a bare schema."""
    output: type[Out] | JsonSchema
    execute: Callable[[In, ToolContext], Awaitable[Out]]
    content: Callable[[In, Any], Sequence[ToolContent]] | None = None
    """What the model reads: pure, from the decoded input and the encoded output. None: the structured value, or the
    text itself when the output is a string."""
    structured: Callable[[In, Any], Any] | None = None
    """What Session consumers read, when that is not the whole encoded output: pure, as `content`."""
    structured_type: type[Any] | JsonSchema | None = None
    """Of what `structured` returns."""
    output_paths: Callable[[In, Any], Sequence[str]] | None = None
    """Managed files that the tool wrote itself."""
    action: str | None = None
    """The permission action that hides it from an agent; None is its registered name."""
    looks_only: bool = False
    """It changes no file of the project, so that no tree has to be taken after it."""


class ToolOutput(Frozen):
    """What one execution gave, validated and projected. `structured` is for Session consumers; `content`, when there
    is any, is what the model reads instead."""

    structured: dict[str, Any]
    content: tuple[ToolContent, ...] = ()
    output_paths: tuple[str, ...] = ()
