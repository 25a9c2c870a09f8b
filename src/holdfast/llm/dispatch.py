"""Runs one call of a model and gives its outcome as events, for programs that drive turns without a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.request import ToolDefinition, ToolOutput, ToolResult, project_output
from holdfast.llm.tool_schema import schema_of
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

T = TypeVar("T")


class ToolFailure(Exception):
    """A failure that a tool declares, for the model to read. `error` is what else there is to know, as JSON."""

    def __init__(self, message: str, error: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.error = error


class TypedTool(Frozen, Generic[T]):
    """`run` gets its input as the type it names, and returns JSON or a ToolOutput."""

    name: str
    description: str
    input: type[T]
    run: Callable[[T], Awaitable[Any]]

    @property
    def definition(self) -> ToolDefinition:
        return ToolDefinition(name=self.name, description=self.description, input_schema=schema_of(self.input))


async def dispatch(call: ev.ToolCall, tools: Iterable[TypedTool[Any]]) -> tuple[ev.Event, ...]:
    """One result; or an error and then a result that says so, when there is no such tool, its input does not fit, or it
    raises ToolFailure. Any other exception is a defect and travels up. The provider's own calls are not ours to run."""
    if call.provider_executed:
        raise ValueError(f"the provider executes {call.name} itself")
    try:
        tool, given = _understood(call, tools)
        answer = await tool.run(given)
    except ToolFailure as failure:
        return (
            ev.ToolErrorEvent(call.id, call.name, failure.message, failure.error),
            ev.ToolResultEvent(
                call.id, call.name, ToolResult(type="error", value=failure.message), provider_executed=False
            ),
        )
    output = answer if isinstance(answer, ToolOutput) else ToolOutput(structured=msgspec.to_builtins(answer))
    result = project_output(output.structured, output.content)
    return (ev.ToolResultEvent(call.id, call.name, result, provider_executed=False, output=output),)


def _understood(call: ev.ToolCall, tools: Iterable[TypedTool[Any]]) -> tuple[TypedTool[Any], Any]:
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        raise ToolFailure(f"Unknown tool: {call.name}")
    if call.invalid is not None:
        raise ToolFailure(f"Invalid tool input: {call.invalid}")
    try:
        return tool, msgspec.convert(call.input, tool.input)
    except msgspec.ValidationError as error:
        raise ToolFailure(f"Invalid tool input: {error}") from error
