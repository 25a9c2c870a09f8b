"""The commands of one Location, and the expansion of a call into prompt text."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.command.command import Command, CommandDraft
from holdfast.core.command.configured import ConfiguredCommands, configured_commands
from holdfast.core.config.reload import refuse_errors
from holdfast.core.prompt.filled_template import FilledTemplate
from holdfast.core.session.attachments import TEXT_BYTES
from holdfast.core.state import Phase, State
from holdfast.core.tool.tool import ToolFailure
from holdfast.schema.deferred import deferred
from holdfast.schema.exceptions import NAME_CHARACTERS, CommandNotFound
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from holdfast.core.command import template
    from holdfast.core.command.server_prompts import ServerPrompts
    from holdfast.core.command.template import Shell
    from holdfast.core.config.config import Config
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.diagnostic import Diagnostic
    from holdfast.core.scope import Scope
    from holdfast.core.skill.skill import Skill
    from holdfast.core.state import Batches
    from holdfast.schema.prompt import FileAttachment
else:
    template = deferred("holdfast.core.command.template")

MOST_COMPARED = 1000
"""Names that an unknown one is compared with."""


class Invocation(Frozen):
    """An expanded command call. Its text is admitted as is and never expanded again."""

    command: Command
    arguments: str
    text: str
    template: FilledTemplate
    """Which parts of the text come from where."""
    skill: str | None = None
    """The skill that was called like a command; attached like those of any prompt."""
    chooses_agent: bool = True
    """False if the template or the agent of the command is from an untrusted project."""
    files: tuple[FileAttachment, ...] = ()
    """What the prompt of an MCP server brings with it, and what was left out of it."""
    notes: tuple[str, ...] = ()


class Commands:
    def __init__(
        self,
        batches: Batches,
        updated: Callable[[], None] | None = None,
        *,
        skills: Callable[[], Awaitable[Sequence[Skill]]] | None = None,
        prompts: Callable[[], ServerPrompts | None] = lambda: None,
    ) -> None:
        """`skills` are the Location's; some can be called like commands. `prompts` are those of its MCP servers, if it
        has any."""
        self.state = State(CommandDraft, batches, updated=updated)
        self._skills = skills
        self._prompts = prompts
        self._configured = ConfiguredCommands((), ())

    def follow(self, config: LiveConfig, scope: Scope) -> None:
        """Add the configured commands, now and after each reload."""
        self._configured = configured_commands(config.current)

        def prepare(new: Config) -> Callable[[], None]:
            found = configured_commands(new)
            refuse_errors(found.diagnostics)
            return partial(self._take, found)

        self.state.transform(lambda draft: self._configured.transform(draft), scope, phase=Phase.CONFIG)
        config.follow(prepare, scope)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._configured.diagnostics

    def list(self) -> tuple[Command, ...]:
        return self.state.value.list()

    def get(self, name: str) -> Command | None:
        return self.state.value.get(name)

    async def callable(self) -> tuple[Command, ...]:
        """All commands that users can call: commands, skills that allow it, and prompts of MCP servers; the latter two
        if their name is not taken."""
        skills = [_as_command(skill) for skill in await self._slash_skills() if self.get(skill.name) is None]
        known = (*self.list(), *skills)
        if (prompts := self._prompts()) is None:
            return known
        taken = {command.name for command in known}
        return (*known, *(prompt.command for name, prompt in prompts.list().items() if name not in taken))

    async def invoke(self, name: str, arguments: str, shell: Shell) -> Invocation:
        """Fill in the template of a command. A skill is not a template: the arguments become the text, and nothing in
        the skill is executed or replaced. A prompt of an MCP server is filled in there. Raises CommandNotFound,
        InvalidRequest for the arguments, and ServiceUnavailable."""
        if len(arguments) > TEXT_BYTES:
            raise template.ArgumentsTooLarge
        command = self.get(name)
        if command is not None:
            trusted = name not in self._configured.untrusted
            expanded = await template.Template(command.template).expand(arguments, shell if trusted else _refuse)
            filled = FilledTemplate(expanded.arguments, expanded.output, trusted=trusted)
            chooses = trusted and name not in self._configured.untrusted_agents
            return Invocation(command, arguments, expanded.text, filled, chooses_agent=chooses)
        skill = next((skill for skill in await self._slash_skills() if skill.name == name), None)
        if skill is None:
            if (prompts := self._prompts()) is not None and (prompt := prompts.list().get(name)) is not None:
                fetched = await prompts.fetch(prompt, arguments)
                filled = FilledTemplate(((fetched.own, len(fetched.text)),), ((0, fetched.own),))
                return Invocation(
                    prompt.command, arguments, fetched.text, filled, files=fetched.files, notes=fetched.notes
                )
            raise CommandNotFound(name, await self._near(name))
        text = arguments.strip()
        return Invocation(_as_command(skill), arguments, text, FilledTemplate(((0, len(text)),)), skill=skill.name)

    async def _near(self, name: str) -> Sequence[str]:
        import difflib

        names = [command.name for command in await self.callable()]
        return difflib.get_close_matches(name[:NAME_CHARACTERS], names[:MOST_COMPARED], n=3)

    async def _slash_skills(self) -> Iterable[Skill]:
        skills = await self._skills() if self._skills is not None else ()
        return (skill for skill in skills if skill.slash)

    def _take(self, configured: ConfiguredCommands) -> None:
        self._configured = configured
        self.state.reload()


async def _refuse(command: str) -> str:
    raise ToolFailure("this project is not trusted (`holdfast trust`)")


def _as_command(skill: Skill) -> Command:
    return Command(name=skill.name, template=skill.content, description=skill.description)
