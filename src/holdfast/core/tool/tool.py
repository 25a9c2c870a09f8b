"""The definition of a tool: description, input type, output type and executor. The name is given at registration; only
this package calls the executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from holdfast.core.tool.codec import JsonSchema
    from holdfast.schema.model import ModelRef
    from holdfast.schema.session_message import ToolContent

In = TypeVar("In")
Out = TypeVar("Out")


class ToolFailure(HoldfastError):
    """An expected failure whose message the model may read and act on."""


class ToolContext(Frozen):
    """The Session, agent, message and call that an execution belongs to."""

    session_id: str
    agent: str
    assistant_message_id: str
    tool_call_id: str
    model: ModelRef | None = None
    """The model that made the call."""
    by_person: bool = False
    """Whether a person asked for the call, not the model."""


class Tool(Frozen, Generic[In, Out], eq=False):
    description: str
    input: type[In] | JsonSchema
    """A type msgspec can convert to (Struct, dataclass, TypedDict), a pydantic model, or a JSON Schema."""
    output: type[Out] | JsonSchema
    execute: Callable[[In, ToolContext], Awaitable[Out]]
    """One that returns a CallOutput has made all of it: it is neither validated nor projected."""
    content: Callable[[In, Any], Sequence[ToolContent]] | None = None
    """Pure function from the decoded input and the encoded output to what the model reads. Default: the structured
    value, or the text if the output is a string."""
    structured: Callable[[In, Any], Any] | None = None
    """Pure function to what API clients read. Default: the encoded output."""
    structured_type: type[Any] | JsonSchema | None = None
    """The type that `structured` returns."""
    output_paths: Callable[[In, Any], Sequence[str]] | None = None
    """Managed files that the tool wrote itself."""
    approval: bool | Callable[[In], bool | Awaitable[bool]] = False
    """Whether a person has to approve a call, also where rules allow it. Only for tools of plugins and programs."""
    action: str | None = None
    """The permission action that hides the tool from an agent if denied. Default: the registered name."""
    read_only: bool = False
    """The tool changes no project file, so no snapshot is taken after it."""
    other_names: Mapping[str, Callable[[Any], Any]] = {}
    """Names that are not offered and under which calls are accepted, with what turns their arguments into ours."""
    grace: float | None = None
    """How many seconds it may take to stop when it is interrupted, if it needs longer than others."""


class CallOutput(Frozen):
    """The validated output of one call. API clients read `structured`; the model reads `content`, or `structured` if
    there is no content."""

    structured: dict[str, Any]
    content: tuple[ToolContent, ...] = ()
    output_paths: tuple[str, ...] = ()
