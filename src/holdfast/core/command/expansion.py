"""Makes the prompt of a command call: the filled-in template, its files, and the agent and model that it names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.command.mentioned_files import mentioned_files
from holdfast.core.command.shell_insert import ShellInsert
from holdfast.core.skill.attachment import attach_skills
from holdfast.schema.exceptions import ApiError, InvalidRequest
from holdfast.schema.prompt import PromptOptions, SkillAttachment

if TYPE_CHECKING:
    from holdfast.core.agent.agents import Agents
    from holdfast.core.catalog.catalog import Catalog
    from holdfast.core.command.commands import Commands, Invocation
    from holdfast.core.permission.authority import Authorities
    from holdfast.core.skill.skills import Skills
    from holdfast.core.tool.registry import ToolRegistry
    from holdfast.schema.model import ModelRef
    from holdfast.schema.prompt import Prompt
    from holdfast.schema.session import Session


class CommandExpansion:
    def __init__(
        self,
        commands: Commands,
        skills: Skills,
        agents: Agents,
        authorities: Authorities,
        catalog: Catalog,
        tools: ToolRegistry,
    ) -> None:
        self._commands = commands
        self._skills = skills
        self._agents = agents
        self._authorities = authorities
        self._catalog = catalog
        self._tools = tools

    async def expand(self, session: Session, given: Prompt) -> Prompt:
        """`given` is the call with the attachments, the agent and the model that were sent with it. What the command
        itself names comes before the latter. Shell commands of the template run as the Session's agent and need the
        same permission as that agent's calls of `bash`. Raises CommandNotFound, or InvalidRequest for what the call or
        the command names and does not exist."""
        call = given.command
        assert call is not None
        insert = ShellInsert(session, self._agents.select(session.agent), self._tools, caller=f"/{call.command}")
        called = await self._commands.invoke(call.command, call.arguments, insert.output)
        options = self._options(session, called, given.options or PromptOptions())
        skills = given.skills or ()
        if called.skill is not None:
            skills = (SkillAttachment(id=called.skill, name=called.skill, text=""), *skills)
        agent = self._agents.select(options.agent or session.agent).id
        authority = await self._authorities.of(session.id, agent)
        directory = Path(session.location.directory)
        mentioned = mentioned_files(called.mentions, directory, authority, trusted=called.trusted)
        return replace(
            given,
            text=called.text,
            files=(*(given.files or ()), *mentioned.files) or None,
            skills=await attach_skills(self._skills, skills, agent, authority) or None,
            options=None if options == PromptOptions() else options,
            notes=mentioned.notes or None,
        )

    def _options(self, session: Session, called: Invocation, given: PromptOptions) -> PromptOptions:
        """Agent and model for the activity of this prompt: the command's, else those of the call. The model of the
        command's agent comes before that of the call."""
        command = called.command
        for name, field in ((command.agent, "command"), (given.agent, "agent")):
            if name is not None and self._agents.select(name).agent is None:
                raise _unknown(called, f"the agent {name}", field)
        own = self._agents.select(command.agent).agent if command.agent is not None else None
        model = command.model or (own.model if own is not None else None)
        self._check_model(session, called, model, "command")
        self._check_model(session, called, given.model, "model")
        return replace(given, agent=command.agent or given.agent, model=model or given.model)

    def _check_model(self, session: Session, called: Invocation, model: ModelRef | None, field: str) -> None:
        if model is None:
            return
        try:
            self._catalog.resolve(session.id, model)
        except ApiError as error:
            raise _unknown(called, f"the model {model.provider_id}/{model.id}", field, str(error)) from error


def _unknown(called: Invocation, what: str, field: str, reason: str = "no configuration defines it") -> InvalidRequest:
    who = f"The command {called.command.name}" if field == "command" else "The call"
    message = f"{who} names {what}, which is not available: {reason}. The prompt was not admitted."
    return InvalidRequest(message, kind="Payload", field=field)
