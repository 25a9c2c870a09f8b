"""Collects the settings of a project's `.opencode` folder that need trust: plugins, shell commands and agents of
commands, rules and request fields of agents. Read only when trust is checked, never for a folder without a trust
decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.config.authority import Grant, command_grants, restrict_agent, rule_grants
from holdfast.core.config.markdown import read_markdown
from holdfast.core.config.migrate import migrate_agent
from holdfast.core.config.plugin_files import plugins_in
from holdfast.core.config.trust import TrustRequest
from holdfast.core.config.validate import validate_agent, validate_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path


def folder_request(directory: Path, strict: Sequence[Mapping[str, str]], resolve: Callable[[str], str]) -> TrustRequest:
    """`strict` are the user's rules that ask or deny; `resolve` as for `read_markdown`."""
    plugins = tuple(plugins_in(directory))
    running = (Grant((path.parent.name, path.name), f"runs the plugin {path}", path.name) for path in plugins)
    return TrustRequest(
        directory, (*running, *_commands(directory, resolve), *_agents(directory, strict, resolve)), plugins
    )


def _commands(directory: Path, resolve: Callable[[str], str]) -> Iterator[Grant]:
    for file in read_markdown(directory, ("command", "commands"), [], recursive=True, resolve=resolve):
        command = validate_command({**file.content.data, "template": file.content.body}, lambda problem: None)
        if command is not None:
            yield from command_grants(("commands", file.name), file.name, command)


def _agents(directory: Path, strict: Sequence[Mapping[str, str]], resolve: Callable[[str], str]) -> Iterator[Grant]:
    for names, recursive in ((("agent", "agents"), True), (("mode", "modes"), False)):
        for file in read_markdown(directory, names, [], recursive=recursive, resolve=resolve):
            agent = validate_agent(migrate_agent(file.content.data), lambda problem: None) or {}
            grants: list[Grant] = []
            restrict_agent(file.name, agent, grants)
            yield from grants
            trail = ("agents", file.name, "permissions")
            yield from rule_grants(trail, f"the agent {file.name}", agent.get("permissions", ()), strict)
