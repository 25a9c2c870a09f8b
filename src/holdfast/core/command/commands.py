"""The commands of one Location, and what a call of one becomes before it is admitted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.command.command import CommandDraft
from holdfast.core.command.configured import ConfiguredCommands, configured_commands
from holdfast.core.command.template import Template
from holdfast.core.state import Phase, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.command.command import Command
    from holdfast.core.command.template import Shell
    from holdfast.core.config.config import Config
    from holdfast.core.config.document import Diagnostic
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.scope import Scope
    from holdfast.core.state import Batches


class CommandNotFound(Exception):
    """No such command; nothing was admitted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Command not found: {name}")
        self.name = name


class Invocation(NamedTuple):
    """A call of a command, expanded. It is admitted as this text and never expanded again."""

    command: Command
    arguments: str
    text: str
    mentions: tuple[str, ...]
    """Paths that the template itself names with `@`, to be attached like those of any prompt."""


class Commands:
    def __init__(self, batches: Batches, updated: Callable[[], None] | None = None) -> None:
        self.state = State(CommandDraft, batches, updated=updated)
        self._configured = ConfiguredCommands((), ())

    def follow(self, config: LiveConfig, scope: Scope) -> None:
        """Commands of the configuration, now and after each reload."""
        self._configured = configured_commands(config.current)

        def prepare(new: Config) -> Callable[[], None]:
            return partial(self._take, configured_commands(new))

        self.state.transform(lambda draft: self._configured.transform(draft), scope, phase=Phase.CONFIG)
        config.follow(prepare, scope)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._configured.diagnostics

    def list(self) -> tuple[Command, ...]:
        return self.state.value.list()

    def get(self, name: str) -> Command | None:
        return self.state.value.get(name)

    async def invoke(self, name: str, arguments: str, shell: Shell) -> Invocation:
        command = self.get(name)
        if command is None:
            raise CommandNotFound(name)
        expanded = await Template(command.template).expand(arguments, shell)
        return Invocation(command, arguments, expanded.text, expanded.mentions)

    def _take(self, configured: ConfiguredCommands) -> None:
        self._configured = configured
        self.state.reload()
