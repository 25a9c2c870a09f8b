"""The tools of one Location, and what one turn was shown of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure, ToolOutput
from holdfast.llm.request import ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.scope import Scope
    from holdfast.schema.permission import Rule


class ToolRegistry:
    def __init__(self) -> None:
        self._tools: dict[str, Tool[Any, Any]] = {}
        self._definitions: dict[str, ToolDefinition] = {}

    def register(self, tools: Mapping[str, Tool[Any, Any]], scope: Scope) -> None:
        for name, tool in dict(tools).items():
            self._tools[name] = tool
            self._definitions[name] = _definition(name, tool)

    def materialize(self, rules: Sequence[Rule]) -> Materialized:
        """What an agent with these rules is shown in one turn."""
        return Materialized(self._tools, tuple(self._definitions.values()))


class Materialized:
    """The advertised definitions, the same objects every turn, and the only way to execute a call."""

    def __init__(self, tools: Mapping[str, Tool[Any, Any]], definitions: tuple[ToolDefinition, ...]) -> None:
        self._tools = tools
        self.definitions = definitions

    async def execute(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """The part that may be cut: decode, authorize, execute, validate, project."""
        tool = self._tools.get(name)
        if tool is None:
            raise ToolFailure(f"Unknown tool: {name}")
        try:
            given = msgspec.convert(arguments, tool.input)
        except msgspec.ValidationError as error:
            raise ToolFailure(f"Invalid tool input: {error}") from error
        value = msgspec.to_builtins(await tool.execute(given, context))
        structured = tool.structured(given, value) if tool.structured else value
        content = tuple(tool.content(given, value)) if tool.content else ()
        return ToolOutput(structured if isinstance(structured, dict) else {"value": structured}, content)

    async def bound(self, output: ToolOutput) -> ToolOutput:
        """The part that may not: keep the aggregate limit, and the whole text in a managed file."""
        return output


def _definition(name: str, tool: Tool[Any, Any]) -> ToolDefinition:
    _, components = msgspec.json.schema_components([tool.input])
    schema = {key: value for key, value in components[tool.input.__name__].items() if key != "title"}
    return ToolDefinition(name=name, description=tool.description, input_schema=schema)
