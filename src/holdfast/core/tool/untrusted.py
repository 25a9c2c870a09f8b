"""Tools of MCP servers and plugins, which ask for nothing themselves: the runtime asks before each of their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.tool import In, Out, Tool, ToolContext

EVERYTHING = ("*",)


def asking(tool: Tool[In, Out], name: str, authorizer: Authorizer) -> Tool[In, Out]:
    """The same tool behind a permission of its own name. Nothing is known of what it touches, hence one resource."""

    async def execute(given: In, context: ToolContext) -> Out:
        await authorizer.allow(context, name, EVERYTHING, save=EVERYTHING)
        return await tool.execute(given, context)

    return tool.but(execute=execute, action=name)
