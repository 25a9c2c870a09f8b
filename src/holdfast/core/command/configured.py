"""Commands of configuration: documents and markdown files, each at the position of its document or folder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.config.document import Diagnostic, Document
from holdfast.core.config.markdown import read_markdown
from holdfast.core.config.model import patched_model
from holdfast.core.config.validate import validate_command
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.core.command.command import Command, CommandDraft
    from holdfast.core.config.config import Config


class CommandPatch(Frozen):
    name: str
    data: dict[str, Any]


class ConfiguredCommands(Frozen):
    patches: tuple[CommandPatch, ...]
    diagnostics: tuple[Diagnostic, ...]

    def transform(self, draft: CommandDraft) -> None:
        for patch in self.patches:
            draft.update(patch.name, partial(_patched, patch.data))


def configured_commands(config: Config) -> ConfiguredCommands:
    patches: list[CommandPatch] = []
    problems: list[Diagnostic] = []
    for entry in config.entries():
        if isinstance(entry, Document):
            patches += (CommandPatch(name, data) for name, data in entry.data.get("commands", {}).items())
        else:
            patches += _files(entry.path, problems)
    return ConfiguredCommands(tuple(patches), tuple(problems))


def _files(directory: Path, problems: list[Diagnostic]) -> Iterator[CommandPatch]:
    for file in read_markdown(directory, ("command", "commands"), problems, recursive=True):
        data = {**file.content.data, "template": file.content.body.strip()}
        if (valid := validate_command(data, file.reporter(problems))) is not None:
            yield CommandPatch(file.name, valid)


def _patched(data: dict[str, Any], command: Command) -> Command:
    """The template is always replaced, the rest only where something is said."""
    fields = {key: data[key] for key in ("template", "description", "agent", "subtask") if key in data}
    model = patched_model(command.model, data.get("model"), data.get("variant"))
    return msgspec.structs.replace(command, **fields, model=model)
