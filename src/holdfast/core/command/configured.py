"""Configured commands, from documents and Markdown files, in the priority order of their document or folder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.config.authority import NOT_TRUSTED, command_grants
from holdfast.core.config.document import Document
from holdfast.core.config.markdown import read_markdown
from holdfast.core.config.model import patched_model
from holdfast.core.config.validate import validate_command
from holdfast.core.diagnostic import Diagnostic
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.command.command import Command, CommandDraft
    from holdfast.core.config.config import Config
    from holdfast.core.config.document import Directory


class CommandPatch(Frozen):
    name: str
    data: dict[str, Any]
    trusted: bool


class ConfiguredCommands(Frozen):
    patches: tuple[CommandPatch, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def untrusted(self) -> frozenset[str]:
        """Commands whose last definition, and so whose template, is from an untrusted project."""
        last = {patch.name: patch.trusted for patch in self.patches}
        return frozenset(name for name, trusted in last.items() if not trusted)

    @property
    def untrusted_agents(self) -> frozenset[str]:
        """Commands whose agent is named by an untrusted project."""
        last = {patch.name: patch.trusted for patch in self.patches if "agent" in patch.data}
        return frozenset(name for name, trusted in last.items() if not trusted)

    def transform(self, draft: CommandDraft) -> None:
        for patch in self.patches:
            draft.update(patch.name, partial(_patched, patch.data))


def configured_commands(config: Config) -> ConfiguredCommands:
    patches: list[CommandPatch] = []
    problems: list[Diagnostic] = []
    for entry in config.entries():
        if isinstance(entry, Document):
            found = entry.data.get("commands", {}).items()
            patches += (CommandPatch(name, data, entry.trusted) for name, data in found)
        else:
            patches += _files(entry, config, problems)
    return ConfiguredCommands(tuple(patches), tuple(problems))


def _files(folder: Directory, config: Config, problems: list[Diagnostic]) -> Iterator[CommandPatch]:
    resolve = config.resolver(folder)
    for file in read_markdown(folder.path, ("command", "commands"), problems, recursive=True, resolve=resolve):
        data = {**file.content.data, "template": file.content.body.strip()}
        if (valid := validate_command(data, file.reporter(problems))) is not None:
            if not folder.trusted:
                grants = command_grants((), file.name, valid)
                problems += (Diagnostic(file.path, f"{grant.wants}; {NOT_TRUSTED}") for grant in grants)
            yield CommandPatch(file.name, valid, folder.trusted)


def _patched(data: dict[str, Any], command: Command) -> Command:
    """Replaces the template, and other fields only if they are given."""
    fields = {key: data[key] for key in ("template", "description", "agent", "subtask") if key in data}
    model = patched_model(command.model, data.get("model"), data.get("variant"))
    return msgspec.structs.replace(command, **fields, model=model)
