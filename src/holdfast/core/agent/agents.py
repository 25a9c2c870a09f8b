"""The agents of one Location, and the selection of one for a Session."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.agent.configured import ConfiguredAgents, configured_agents
from holdfast.core.agent.draft import AgentDraft
from holdfast.core.config.reload import refuse_errors
from holdfast.core.permission.rules import Authority
from holdfast.core.state import Phase, State
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.config.config import Config
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.diagnostic import Diagnostic
    from holdfast.core.scope import Scope
    from holdfast.core.state import Batches
    from holdfast.schema.agent import Agent

BUILD = "build"


class AgentSelection(Frozen):
    id: str
    agent: Agent | None
    """None if there is no such agent. Then no turn may run and nothing is permitted."""


class _AgentIndex(Frozen):
    of: AgentDraft
    agents: dict[str, Agent]
    default: AgentSelection


class Agents:
    def __init__(self, batches: Batches, updated: Callable[[], None] | None = None) -> None:
        self.state = State(AgentDraft, batches, updated=updated)
        self._configured = ConfiguredAgents()
        self._view: _AgentIndex | None = None

    def follow(self, config: LiveConfig, environment: Mapping[str, str], scope: Scope) -> None:
        """Add the configured agents, now and after each reload. Raises InvalidEnvironmentRules."""
        self._configured = configured_agents(config.current, environment)

        def prepare(new: Config) -> Callable[[], None]:
            found = configured_agents(new, environment)
            refuse_errors(found.diagnostics)
            return partial(self._take, found)

        self.state.transform(lambda draft: self._configured.transform(draft), scope, phase=Phase.CONFIG)
        self.state.transform(lambda draft: self._configured.transform_last(draft), scope, phase=Phase.POLICY)
        config.follow(prepare, scope)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._configured.diagnostics

    def list(self) -> tuple[Agent, ...]:
        return self.state.value.list()

    @property
    def index(self) -> Mapping[str, Agent]:
        """The agents by id. Shared: nobody may change them. The same object until something changes."""
        return self._current.agents

    def get(self, id: str) -> Agent | None:
        return self.state.value.get(id)

    def select(self, id: str | None) -> AgentSelection:
        """The agent with this id, even a hidden one, or the default agent. Returns the same record until something
        changes, so that callers can compare it by identity."""
        return self._current.default if id is None else AgentSelection(id, self._current.agents.get(id))

    def authority(self, id: str | None) -> Authority | None:
        """The rules for permission checks: those of the agent that `select` returns, or None without one."""
        agent = self.select(id).agent
        return Authority(agent.permissions, agent.fences) if agent is not None else None

    def _take(self, configured: ConfiguredAgents) -> None:
        self._configured = configured
        self.state.reload()

    @property
    def _current(self) -> _AgentIndex:
        draft = self.state.value
        if self._view is None or self._view.of is not draft:
            agents = {agent.id: agent for agent in draft.list()}
            self._view = _AgentIndex(draft, agents, _default(agents, draft.default))
        return self._view


def _default(agents: Mapping[str, Agent], configured: str | None) -> AgentSelection:
    selectable = {id: agent for id, agent in agents.items() if agent.mode != "subagent" and not agent.hidden}
    for id in (configured, BUILD, *selectable):
        if id in selectable:
            return AgentSelection(id, selectable[id])
    return AgentSelection(BUILD, None)
