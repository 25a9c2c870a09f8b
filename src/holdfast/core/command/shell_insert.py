"""Runs the shell commands of a template as an agent of the Session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.permission.errors import REQUEST_DENIED, DeniedByPerson
from holdfast.core.tool.command_output import NO_OUTPUT
from holdfast.core.tool.tool import ToolContext, ToolFailure
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from holdfast.core.agent.agents import AgentSelection
    from holdfast.core.tool.registry import ToolRegistry
    from holdfast.core.tool.tool import CallOutput
    from holdfast.schema.session import Session

TOOL = "bash"
NOT_OFFERED = "the rules of the agent {agent} deny `bash`"


class ShellInsert:
    def __init__(self, session: Session, selected: AgentSelection, tools: ToolRegistry, *, caller: str) -> None:
        """`caller` names the command in permission requests."""
        rules, fences = (selected.agent.permissions, selected.agent.fences) if selected.agent else ((), ())
        self._tools = tools.materialize(rules, fences=fences)
        self._agent = selected.id
        self._context = ToolContext(session.id, selected.id, assistant_message_id="", tool_call_id=caller)

    async def output(self, command: str) -> str:
        """What the command writes, and how it ended if it failed. Raises ToolFailure if it does not run."""
        if not any(tool.name == TOOL for tool in self._tools.definitions):
            raise ToolFailure(NOT_OFFERED.format(agent=self._agent))
        try:
            output = await self._tools.execute(TOOL, {"command": command}, self._context)
        except DeniedByPerson as denied:
            raise ToolFailure(REQUEST_DENIED) from denied
        return _inserted(output)


def _inserted(output: CallOutput) -> str:
    """The tool's remarks follow what the command wrote; they matter only after a failure."""
    texts = [part.text for part in output.content if isinstance(part, TextContent)]
    if texts and texts[0] == NO_OUTPUT:
        texts[0] = ""
    if output.structured.get("exit") == 0:
        return texts[0].rstrip("\n") if texts else ""
    return "\n".join(text.rstrip("\n") for text in texts if text)
