"""What the files of a project's `.opencode` folder want beyond narrowing: plugins, shell commands of templates, and
rules or request fields of agents. Read when somebody asks about trust, never for a folder that nobody trusted."""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import TYPE_CHECKING

from holdfast.core.config.authority import Grant, inserting, narrowed_agent, widening
from holdfast.core.config.markdown import read_markdown
from holdfast.core.config.migrate import migrate_agent
from holdfast.core.config.validate import validate_agent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

PLUGIN_FOLDERS = ("plugin", "plugins")
MOST_FILES = 1_000
MOST_BYTES = 32 * 1024 * 1024


def folder_grants(directory: Path, strict: Sequence[Mapping[str, str]] = ()) -> tuple[Grant, ...]:
    return (*_plugins(directory), *_commands(directory), *_agents(directory, strict))


def _plugins(directory: Path) -> Iterator[Grant]:
    for folder in PLUGIN_FOLDERS:
        try:
            names = sorted(os.listdir(directory / folder))
        except OSError:
            continue
        for name in names:
            path = directory / folder / name
            if name.endswith(".py") or (path / "__init__.py").is_file():
                yield Grant((folder, name), f"runs the plugin {path}", _content_digest(path))


def _content_digest(path: Path) -> str:
    """Of all bytes below; what is too much to read is never the same twice, and so never trusted."""
    found, total = hashlib.sha256(), 0
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    if len(files) > MOST_FILES:
        return secrets.token_hex()
    for file in files:
        try:
            total += file.stat().st_size
            if total > MOST_BYTES:
                return secrets.token_hex()
            content = file.read_bytes()
        except OSError:
            return secrets.token_hex()
        name = os.fsencode(file.relative_to(path) if file != path else file.name)
        found.update(len(name).to_bytes(8, "big") + name + len(content).to_bytes(8, "big") + content)
    return found.hexdigest()


def _commands(directory: Path) -> Iterator[Grant]:
    for file in read_markdown(directory, ("command", "commands"), [], recursive=True):
        yield from inserting(("commands", file.name), file.name, file.content.body)


def _agents(directory: Path, strict: Sequence[Mapping[str, str]]) -> Iterator[Grant]:
    for names, recursive in ((("agent", "agents"), True), (("mode", "modes"), False)):
        for file in read_markdown(directory, names, [], recursive=recursive):
            agent = validate_agent(migrate_agent(file.content.data), lambda problem: None) or {}
            grants: list[Grant] = []
            narrowed_agent(file.name, agent, grants)
            yield from grants
            trail = ("agents", file.name, "permissions")
            yield from widening(trail, f"the agent {file.name}", agent.get("permissions", ()), strict)
