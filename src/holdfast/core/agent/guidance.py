"""`core/agent-guidance`: names and descriptions of the agents that the selected agent may call.

The list is a Context Source and not part of the tool's description: an agent that is added or removed is told in one
message, and the requests before it stay a prefix of those after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.agent.callable_agents import TASKS_TOOL, TOOL
from holdfast.core.context.source import ABSENT, JsonCodec, Source
from holdfast.core.context.system_context import make
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.agent.callable_agents import CallableAgents
    from holdfast.core.context.source import Absent
    from holdfast.core.context.system_context import SystemContext
    from holdfast.schema.agent import Agent
    from holdfast.schema.session import Session

KEY = "core/agent-guidance"
INTRODUCTION = "You can give tasks to these agents with the `subagent` tool."
CHANGED = "The agents that you can give tasks to have changed. This list takes the place of the earlier one."
REMOVED = "There is no agent any more that you can give tasks to. Do not call the agents that were listed earlier."
DESCRIPTION_CHARACTERS = 1000
MOST_LISTED = 200


class ListedAgent(Record):
    name: str
    description: str


Guidance = tuple[ListedAgent, ...]


class AgentGuidance:
    """The agents that one turn's agent may call. They are looked up when `context` is observed."""

    def __init__(self, callable_agents: CallableAgents, session: Session, agent: Agent) -> None:
        self._callable = callable_agents
        self._session = session
        self._agent = agent
        self._found: tuple[Agent, ...] | None = None

    def context(self) -> SystemContext:
        return make(
            Source(
                key=KEY,
                codec=_CODEC,
                load=self._load,
                baseline=baseline,
                update=lambda _, current: f"{CHANGED}\n{baseline(current)}",
                removed=lambda _: REMOVED,
                immediate=True,
            )
        )

    def hidden_tools(self) -> frozenset[str]:
        """The tools that need an agent to call, or the background. Empty before the observation."""
        if self._found is None:
            return frozenset()
        if not self._found:
            return frozenset({TOOL, TASKS_TOOL})
        return frozenset() if self._callable.background else frozenset({TASKS_TOOL})

    async def _load(self) -> Guidance | Absent:
        self._found = await self._callable.of(self._session, self._agent)
        return guidance(self._found) or ABSENT


def guidance(agents: Iterable[Agent]) -> Guidance:
    listed = (ListedAgent(name=agent.id, description=agent.description or "") for agent in agents)
    return tuple(listed)[:MOST_LISTED]


def baseline(value: Guidance) -> str:
    lines = [INTRODUCTION, "<available_agents>"]
    for agent in value:
        name, description = _one_line(agent.name), _one_line(agent.description)
        lines.append(f'  <agent name="{name}">{description}</agent>')
    return "\n".join([*lines, "</available_agents>"])


def _one_line(text: str) -> str:
    """Escape, join the lines and shorten, so that the text cannot leave its tag."""
    text = " ".join(text.split())[:DESCRIPTION_CHARACTERS]
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


_CODEC = JsonCodec(Guidance)
