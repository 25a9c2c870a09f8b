"""What a tool is: a description, an input type, and one executor. Its name comes from where it is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.llm.request import ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.schema.session_message import ToolContent


class ToolFailure(Exception):
    """An expected failure whose message the model may read and act on."""


class ToolOutput(NamedTuple):
    """`structured` is for Session consumers; `content`, when there is any, is what the model reads instead."""

    structured: dict[str, Any]
    content: tuple[ToolContent, ...] = ()


class ToolContext(NamedTuple):
    session_id: str
    agent: str
    assistant_message_id: str
    tool_call_id: str


class Tool(NamedTuple):
    description: str
    input: type[msgspec.Struct]
    execute: Callable[[Any, ToolContext], Awaitable[ToolOutput]]


class Toolbox:
    """The tools of one Location, and their definitions: the same objects every turn, so provider caches hold."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = dict(tools)
        self.definitions = tuple(_definition(name, tool) for name, tool in self._tools.items())

    async def execute(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        tool = self._tools.get(name)
        if tool is None:
            raise ToolFailure(f"Unknown tool: {name}")
        try:
            given = msgspec.convert(arguments, tool.input)
        except msgspec.ValidationError as error:
            raise ToolFailure(f"Invalid tool input: {error}") from error
        return await tool.execute(given, context)


def _definition(name: str, tool: Tool) -> ToolDefinition:
    _, components = msgspec.json.schema_components([tool.input])
    schema = {key: value for key, value in components[tool.input.__name__].items() if key != "title"}
    return ToolDefinition(name=name, description=tool.description, input_schema=schema)
