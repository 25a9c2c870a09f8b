"""A Location that plugins can add to, made of the real parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.core.config.conftest import Place
from tests.core.tool.authorizers import AllowAll

from holdfast.core.agent.agents import Agents
from holdfast.core.catalog.catalog import Catalog
from holdfast.core.command.commands import Commands
from holdfast.core.config.config import Config
from holdfast.core.context.registry import SystemContextRegistry
from holdfast.core.context.system_context import initialize, observe
from holdfast.core.event.bus import Bus
from holdfast.core.plugin.host import PluginHost
from holdfast.core.plugin.plugin import Plugin
from holdfast.core.plugin.plugin_location import PluginLocation
from holdfast.core.plugin.plugins import Plugins
from holdfast.core.plugin.request import RequestHooks
from holdfast.core.plugin.terminal import TerminalHooks
from holdfast.core.reference.reference import References
from holdfast.core.skill.skill import SkillSources
from holdfast.core.state import Batches, State
from holdfast.core.tool.registry import ToolRegistry

Setup = Callable[[PluginHost], Awaitable[None] | None]


class Surroundings:
    def __init__(self) -> None:
        self.batches = Batches()
        self.rebuilt: list[str] = []
        self.agents = Agents(self.batches, lambda: self.rebuilt.append("agents"))
        self.commands = Commands(self.batches, lambda: self.rebuilt.append("commands"))
        self.context = SystemContextRegistry()
        self.tools = ToolRegistry(batches=self.batches, authorizer=AllowAll())
        self.bus = Bus()
        self.problems: list[tuple[str, str]] = []
        self.catalog = Catalog(Config(), {"ACME_KEY": "k"}, batches=self.batches)
        self.references = State(References, self.batches)
        self.skills = State(SkillSources, self.batches)
        self.requests = RequestHooks(lambda id, message: self.problems.append((id, message)), timeout=30)
        self.terminals = TerminalHooks(lambda id, message: self.problems.append((id, message)), timeout=30)
        self.added: list[tuple[str, list[str]]] = []
        self.location = PluginLocation(
            agents=self.agents.state,
            commands=self.commands.state,
            context=self.context,
            tools=self.tools,
            requests=self.requests,
            events=self.bus,
            catalog=self.catalog,
            integrations=self.catalog.integrations,
            references=self.references,
            skills=self.skills,
            terminals=self.terminals,
        )
        self.plugins = Plugins(self.location, self.batches, self._added, seconds=30)

    def _added(self, id: str) -> None:
        self.added.append((id, self.names()))

    def names(self) -> list[str]:
        return [agent.id for agent in self.agents.list()]

    async def told(self) -> str:
        """What a first baseline would say."""
        return initialize(await observe(self.context.compose())).baseline

    def advertised(self) -> list[str]:
        return [definition.name for definition in self.tools.materialize(()).definitions]


def plugin(id: str, setup: Setup) -> Plugin:
    made: Any = SimpleNamespace(id=id, setup=setup)
    return made  # type: ignore[no-any-return]


def adding(name: str) -> Setup:
    """A plugin's setup that brings one agent."""

    def setup(host: PluginHost) -> None:
        host.agent.transform(lambda draft: draft.update(name, lambda agent: agent))

    return setup


@pytest.fixture
async def around() -> AsyncIterator[Surroundings]:
    surroundings = Surroundings()
    yield surroundings
    await surroundings.plugins.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
