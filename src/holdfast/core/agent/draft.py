"""The editable set of agents. Records are copied in and out, so a transform cannot change shared ones."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import msgspec

from holdfast.schema.agent import Agent, ProviderRequest, new_agent

if TYPE_CHECKING:
    from collections.abc import Callable


class AgentDraft:
    def __init__(self, agents: dict[str, Agent] | None = None, default: str | None = None) -> None:
        self._agents = agents or {}
        self.default = default
        """The configured default; whether it can be selected is checked on use."""

    def copy(self) -> AgentDraft:
        return AgentDraft(dict(self._agents), self.default)

    def list(self) -> tuple[Agent, ...]:
        return tuple(_own(agent) for agent in self._agents.values())

    def get(self, id: str) -> Agent | None:
        found = self._agents.get(id)
        return _own(found) if found is not None else None

    def update(self, id: str, change: Callable[[Agent], Agent]) -> None:
        """Change an agent, creating it if needed. Its id cannot change."""
        changed = change(self.get(id) or new_agent(id))
        self._agents[id] = _own(msgspec.structs.replace(changed, id=id))

    def remove(self, id: str) -> None:
        self._agents.pop(id, None)


def _own(agent: Agent) -> Agent:
    request = ProviderRequest(headers=dict(agent.request.headers), body=copy.deepcopy(agent.request.body))
    return msgspec.structs.replace(agent, request=request)
