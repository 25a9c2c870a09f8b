"""Which agents another agent may call with the `subagent` tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.permission.rules import evaluate
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from holdfast.core.agent.agents import Agents
    from holdfast.core.permission.authority import Authorities
    from holdfast.schema.agent import Agent
    from holdfast.schema.session import Session

ACTION = "subagent"
TOOL = "subagent"
TASKS_TOOL = "tasks"
APPLY_TOOL = "apply_subagent"
DEFAULT_AGENT = "general"
"""Takes the tasks of commands that name no agent."""


KNOWN_DEPTHS = 1_000


class SubagentSettings(NamedTuple):
    depth: int = 3
    parallel: int = 8
    tree: int = 50
    background: bool = True


class _Known(Frozen):
    agents: Mapping[str, Agent]
    caller: Agent
    found: tuple[Agent, ...]


class CallableAgents:
    """Of one Location."""

    def __init__(
        self,
        agents: Agents,
        ancestors: Callable[[str], Awaitable[Sequence[str]]],
        authorities: Authorities,
        settings: Callable[[], SubagentSettings],
    ) -> None:
        """`ancestors` gives the ids of a Session's ancestors."""
        self._authorities = authorities
        self._agents = agents
        self._ancestors = ancestors
        self._settings = settings
        self._known: dict[str, _Known] = {}
        self._depths: dict[tuple[str, str], int] = {}
        """How many ancestors a child of a parent has. A deletion above that makes it fewer is not noticed."""

    async def of(self, session: Session, caller: Agent) -> tuple[Agent, ...]:
        """The agents that are offered to a caller, sorted by name. None where children may not be nested deeper. The
        caller has the fences that the ancestors of the Session set."""
        return self._called_by(caller) if await self.may_nest(session) else ()

    async def for_prompt(self, session: Session, caller: Agent) -> tuple[Agent, ...]:
        """The same for a caller without these fences."""
        return await self.of(session, await self._authorities.fenced(session, caller))

    async def may_nest(self, session: Session) -> bool:
        """Whether the Session may have children."""
        depth = self._settings().depth
        if session.parent_id is None:
            return depth > 0
        line = (session.id, session.parent_id)
        if line not in self._depths:
            self.begin(session, len(await self._ancestors(session.id)))
        return self._depths[line] < depth

    def begin(self, session: Session, ancestors: int) -> None:
        """Take over how many ancestors a Session has, as it was read."""
        if session.parent_id is not None:
            if len(self._depths) >= KNOWN_DEPTHS:
                self._depths.clear()
            self._depths[session.id, session.parent_id] = ancestors

    @property
    def background(self) -> bool:
        """Whether tasks may go on in the background."""
        return self._settings().background

    def _called_by(self, caller: Agent) -> tuple[Agent, ...]:
        agents, known = self._agents.index, self._known.get(caller.id)
        if known is not None and known.agents is agents and _same_rules(known.caller, caller):
            return known.found
        found = tuple(agents[id] for id in sorted(agents) if _may_call(caller, agents[id]))
        self._known[caller.id] = _Known(agents, caller, found)
        return found


def is_callable(agent: Agent) -> bool:
    """Whether an agent works for others at all."""
    return agent.mode != "primary"


def _may_call(caller: Agent, agent: Agent) -> bool:
    if agent.hidden or not is_callable(agent):
        return False
    return evaluate(caller.permissions, ACTION, agent.id, caller.fences) != "deny"


def _same_rules(one: Agent, other: Agent) -> bool:
    return one is other or (one.permissions == other.permissions and one.fences == other.fences)
