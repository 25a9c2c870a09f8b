"""Makes the prompt of a command call: the filled-in template, what it mentions, and the agent and model it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.agent.callable_agents import DEFAULT_AGENT
from holdfast.core.command.shell_insert import ShellInsert
from holdfast.core.skill.attachment import attach_skills
from holdfast.schema.exceptions import ApiError, InvalidRequest
from holdfast.schema.prompt import PromptOptions, PromptTask, SkillAttachment

if TYPE_CHECKING:
    from holdfast.core.agent.agents import Agents
    from holdfast.core.agent.callable_agents import CallableAgents
    from holdfast.core.catalog.catalog import Catalog
    from holdfast.core.command.command import Command
    from holdfast.core.command.commands import Commands, Invocation
    from holdfast.core.permission.authority import Authorities
    from holdfast.core.prompt.mentions import Mentions
    from holdfast.core.session.mentioned import Mentioned
    from holdfast.core.skill.skills import Skills
    from holdfast.core.tool.registry import ToolRegistry
    from holdfast.schema.model import ModelRef
    from holdfast.schema.prompt import Prompt
    from holdfast.schema.session import Session

SUBTASK = (
    "This command is a task for the agent `{agent}`, which works on it first. Report its result to the user, and do "
    "not do the task again."
)
NO_SUBTASK = "The command /{command} is meant as a task for a subagent. None can be called here: work on it yourself."
LABEL_CHARACTERS = 100
AGENT_NOT_USED = (
    "The command {command} names the agent {agent}, which was not used: the project is not trusted (`holdfast trust`)."
)


class CommandExpansion:
    def __init__(
        self,
        commands: Commands,
        skills: Skills,
        agents: Agents,
        callable_agents: CallableAgents,
        authorities: Authorities,
        catalog: Catalog,
        tools: ToolRegistry,
        mentions: Mentions,
    ) -> None:
        self._callable_agents = callable_agents
        self._commands = commands
        self._skills = skills
        self._agents = agents
        self._authorities = authorities
        self._catalog = catalog
        self._tools = tools
        self._mentions = mentions

    async def expand(self, session: Session, given: Prompt, *, resolves_arguments: bool) -> tuple[Prompt, Mentioned]:
        """The prompt, and what its text mentions. `given` is the call with the attachments, the agent and the model
        that were sent with it. What the command itself names comes before the latter. Shell commands of the template
        run as the Session's agent and need the same permission as that agent's calls of `bash`. `resolves_arguments`:
        mentions in the arguments count. Raises CommandNotFound, or InvalidRequest for what the call or the command
        names and does not exist."""
        call = given.command
        assert call is not None
        insert = ShellInsert(session, self._agents.select(session.agent), self._tools, caller=f"/{call.command}")
        called = await self._commands.invoke(call.command, call.arguments, insert.output)
        sent = given.options or PromptOptions()
        options = self._options(session, called, sent)
        task, notes = await self._task(session, called, sent, options)
        if task is not None:
            options = sent
        skills = given.skills or ()
        if called.skill is not None:
            skills = (SkillAttachment(id=called.skill, name=called.skill, text=""), *skills)
        agent = self._agents.select(options.agent or session.agent).id
        authority = await self._authorities.of(session.id, agent)
        prompt = replace(
            given,
            text=called.text,
            files=(*(given.files or ()), *called.files) or None,
            skills=await attach_skills(self._skills, skills, agent, authority) or None,
            options=None if options == PromptOptions() else options,
            task=task,
            notes=(*self._notes(called, agent), *notes) or None,
        )
        template = called.template.replace(resolves_arguments=resolves_arguments)
        return prompt, await self._mentions.resolve(session, prompt, template)

    def _notes(self, called: Invocation, agent: str) -> tuple[str, ...]:
        named = called.command.agent
        if called.chooses_agent or named in (None, agent):
            return called.notes
        return (AGENT_NOT_USED.format(command=called.command.name, agent=named),)

    async def _task(
        self, session: Session, called: Invocation, sent: PromptOptions, options: PromptOptions
    ) -> tuple[PromptTask | None, tuple[str, ...]]:
        """The task that the command gives to a subagent, if it does, and what the model is told about that. `sent` is
        what the call chooses for the Session, and `options` what the command adds to it."""
        command = _own_choice(called)
        own = self._agents.select(command.agent).agent if command.agent is not None else None
        if command.subtask is False or not (command.subtask or (own is not None and own.mode == "subagent")):
            return None, ()
        leading = self._agents.select(sent.agent or session.agent).agent
        if leading is None or not await self._callable_agents.for_prompt(session, leading):
            return None, (NO_SUBTASK.format(command=command.name),)
        agent = command.agent or DEFAULT_AGENT
        if self._agents.get(agent) is None:
            raise _unknown(called, f"the agent {agent}", "command")
        label = " ".join((command.description or "").split())[:LABEL_CHARACTERS] or f"/{command.name}"
        model = options.model if options.model != sent.model else None
        return PromptTask(agent=agent, description=label, model=model), (SUBTASK.format(agent=agent),)

    def _options(self, session: Session, called: Invocation, given: PromptOptions) -> PromptOptions:
        """Agent and model for the activity of this prompt: the command's, else those of the call. The model of the
        command's agent comes before that of the call. A command of an untrusted project does not choose the agent."""
        command = _own_choice(called)
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


def _own_choice(called: Invocation) -> Command:
    """The command, without an agent if it may not choose one."""
    return called.command if called.chooses_agent else replace(called.command, agent=None)


def _unknown(called: Invocation, what: str, field: str, reason: str = "no configuration defines it") -> InvalidRequest:
    who = f"The command {called.command.name}" if field == "command" else "The call"
    message = f"{who} names {what}, which is not available: {reason}. The prompt was not admitted."
    return InvalidRequest(message, kind="Payload", field=field)
