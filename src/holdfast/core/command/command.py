"""Commands, and the editable set of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.schema.catalog import CommandInfo

if TYPE_CHECKING:
    from collections.abc import Callable


Command = CommandInfo


class CommandDraft:
    def __init__(self, commands: dict[str, Command] | None = None) -> None:
        self._commands = commands or {}

    def copy(self) -> CommandDraft:
        return CommandDraft(dict(self._commands))

    def list(self) -> tuple[Command, ...]:
        return tuple(self._commands.values())

    def get(self, name: str) -> Command | None:
        return self._commands.get(name)

    def update(self, name: str, change: Callable[[Command], Command]) -> None:
        """Change a command, creating it with an empty template if needed. Its name cannot change."""
        changed = change(self._commands.get(name) or Command(name=name, template=""))
        self._commands[name] = msgspec.structs.replace(changed, name=name)

    def remove(self, name: str) -> None:
        self._commands.pop(name, None)
