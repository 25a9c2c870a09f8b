"""Expands a call of a command into the prompt that is admitted for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.tool.tool import ToolContext
from holdfast.schema.frozen import Frozen
from holdfast.schema.prompt import FileInput
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from holdfast.core.agent.agents import Agents
    from holdfast.core.command.commands import Commands
    from holdfast.core.tool.registry import ToolRegistry
    from holdfast.schema.session import Session


class ExpandedCommand(Frozen):
    text: str
    files: tuple[FileInput, ...]
    """Existing files that the template mentions with `@`."""


class CommandExpansion:
    def __init__(self, commands: Commands, agents: Agents, tools: ToolRegistry) -> None:
        self._commands = commands
        self._agents = agents
        self._tools = tools

    async def expand(self, session: Session, name: str, arguments: str) -> ExpandedCommand:
        """Fill in the template. Its shell commands run as the Session's agent and need the same permission as that
        agent's calls of `bash`. Raises CommandNotFound."""
        selected = self._agents.select(session.agent)
        rules, fences = (selected.agent.permissions, selected.agent.fences) if selected.agent else ((), ())
        tools = self._tools.materialize(rules, fences=fences)
        caller = ToolContext(session.id, selected.id, assistant_message_id="", tool_call_id=f"/{name}")

        async def shell(command: str) -> str:
            output = await tools.bound(await tools.execute("bash", {"command": command}, caller))
            return "\n".join(part.text for part in output.content if isinstance(part, TextContent))

        called = await self._commands.invoke(name, arguments, shell)
        directory = Path(session.location.directory)
        paths = ((mention, directory / Path(mention).expanduser()) for mention in called.mentions)
        files = tuple(FileInput(uri=path.as_uri(), name=mention) for mention, path in paths if path.exists())
        return ExpandedCommand(called.text, files)
