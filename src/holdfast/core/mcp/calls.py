"""One call of a tool of an MCP server: check the arguments, ask, send it once, read the result. Direct calls and those
through `mcp_call` are the same.

Invariants
- A call is sent at most once. One that breaks off has failed with its reason: the server may have acted.
- Nothing that a server claims of a tool permits anything."""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.mcp.call_result import call_output
from holdfast.core.mcp.errors import ServerUnavailable
from holdfast.core.mcp.seam import CallFor
from holdfast.core.mcp.stranger_text import one_line
from holdfast.core.mcp.tool_definition import description, input_schema
from holdfast.core.mcp.tool_names import claimed_by, server_prefix
from holdfast.core.tool.call_permission import EVERYTHING, shown_input
from holdfast.core.tool.codec import JsonSchema, SchemaMismatch, codec_of
from holdfast.core.tool.progress import report
from holdfast.core.tool.registration import INVALID_INPUT, Registration
from holdfast.core.tool.tool import Tool, ToolFailure
from holdfast.mcp.errors import McpError
from holdfast.schema.exceptions import McpServerNotFound
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.mcp.seam import Servers
    from holdfast.core.mcp.tool_names import NamedTool
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.tool import CallOutput, ToolContext
    from holdfast.mcp.results import Progress

MESSAGE_CHARACTERS = 2_000
CLAIMED = "{name} is not called: rules for the MCP server {other} would apply to it. Rename one of the two servers."
UNREADABLE = "The MCP server {server} sent a result that cannot be used: {why}"


class McpCalls:
    def __init__(self, servers: Servers, names: Callable[[], Iterable[str]], authorizer: Authorizer) -> None:
        """`names` gives the names of all configured servers."""
        self._servers = servers
        self._names = names
        self._authorizer = authorizer

    def registration(self, named: NamedTool) -> Registration:
        """The tool as one that a model calls by its name. Raises RegistrationError."""

        async def execute(given: dict[str, Any], context: ToolContext) -> CallOutput:
            return await self._send(named, given, context)

        return Registration(
            named.name,
            Tool(
                description=description(named),
                input=JsonSchema(input_schema(named)),
                output=JsonSchema({}),
                execute=execute,
            ),
        )

    async def call(self, named: NamedTool, arguments: dict[str, Any], context: ToolContext) -> CallOutput:
        try:
            codec_of(JsonSchema(input_schema(named))).decode(arguments)
        except SchemaMismatch as error:
            raise ToolFailure(INVALID_INPUT.format(detail=error)) from error
        return await self._send(named, arguments, context)

    async def _send(self, named: NamedTool, arguments: dict[str, Any], context: ToolContext) -> CallOutput:
        configured = {name: server_prefix(name) for name in self._names()}
        if named.server not in configured:  # nobody need decide about it
            raise ToolFailure(str(McpServerNotFound(named.server)))
        other = claimed_by(named.name, named.server, configured)
        if other is not None:
            raise ToolFailure(CLAIMED.format(name=named.name, other=other))
        metadata = {"server": named.server, "tool": named.tool.name, "input": shown_input(arguments)}
        await self._authorizer.allow(context, named.name, EVERYTHING, save=EVERYTHING, metadata=metadata)
        whom = CallFor(context.session_id, context.assistant_message_id, context.tool_call_id, context.agent)
        try:
            result = await self._servers.call(named.server, named.tool.name, arguments, whom, _reporter())
        except (ServerUnavailable, McpServerNotFound) as error:
            raise ToolFailure(str(error)) from error
        except McpError as error:
            raise ToolFailure(f"{named.server}: {error}") from error
        try:
            return call_output(result, named.tool.output_schema)
        except (msgspec.EncodeError, UnicodeError, RecursionError, TypeError) as error:
            raise ToolFailure(UNREADABLE.format(server=named.server, why=error)) from error


def _reporter() -> Callable[[Progress], None]:
    """Progress arrives in the task that reads the connection; it belongs to the call that is made here."""
    context = copy_context()

    def on_progress(progress: Progress) -> None:
        message = one_line(progress.message or "", MESSAGE_CHARACTERS)
        facts = {"progress": progress.progress, "total": progress.total, "message": message or None}
        text = (TextContent(text=message),) if message else ()
        context.run(report, {name: value for name, value in facts.items() if value is not None}, text)

    return on_progress
