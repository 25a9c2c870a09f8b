"""The agents of a place, as a Location would have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.config.conftest import Place

from holdfast.core.agent.agents import Agents
from holdfast.core.agent.builtin import builtin_agents
from holdfast.core.config.environment import Directories
from holdfast.core.config.reload import LiveConfig
from holdfast.core.config.trust import TRUST_EVERYTHING, Trust
from holdfast.core.scope import Scope
from holdfast.core.state import Batches, Phase

DIRECTORIES = Directories(Path("/c"), Path("/d"), Path("/cache"), Path("/s"), Path("/t"))


class AgentPlace(Place):
    """Builds anew at each call, as reopening a Location does."""

    def agents(self, *, trust: Trust = TRUST_EVERYTHING, **environment: str) -> Agents:
        batches, scope = Batches(), Scope()
        agents = Agents(batches)
        with batches.batch():
            agents.state.transform(builtin_agents(DIRECTORIES, self.root), scope, phase=Phase.BUILTIN)
            agents.follow(
                LiveConfig(lambda: self.load(None, trust=trust, **environment), batches),
                self.environment(**environment),
                scope,
            )
        return agents

    def rules(self, id: str, **environment: str) -> list[str]:
        return spelled(self.agents(trust=TRUST_EVERYTHING, **environment), id)


def spelled(agents: Agents, id: str) -> list[str]:
    agent = agents.get(id)
    assert agent is not None
    return [f"{rule.effect} {rule.action} {rule.resource}" for rule in agent.permissions]


@pytest.fixture
def place(tmp_path: Path) -> AgentPlace:
    return AgentPlace(tmp_path)
