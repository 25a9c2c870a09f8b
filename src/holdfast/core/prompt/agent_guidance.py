"""What the model is told about the agents that a prompt mentions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

GUIDANCE = (
    "The user mentions the agent `{agent}`. Give it the part of the task that is meant for it, with the `subagent` "
    "tool."
)


def agent_guidance(mentioned: Iterable[str], callable_agents: Collection[str]) -> tuple[str, ...]:
    """One note for each mentioned agent that the agent of the turn may call with a tool that it is offered."""
    return tuple(GUIDANCE.format(agent=agent) for agent in mentioned if agent in callable_agents)
