"""The model that configuration assigns to background work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.exceptions import ApiError

if TYPE_CHECKING:
    from holdfast.core.agent.agents import Agents
    from holdfast.core.catalog.catalog import Catalog, ResolvedModel
    from holdfast.schema.session import Session


def assigned_model(work: str, session: Session, agents: Agents, catalog: Catalog) -> ResolvedModel | None:
    """The model of the agent with the name of the work (`title`, `compaction`); None where there is none."""
    agent = agents.select(work).agent
    if agent is None or agent.model is None:
        return None
    try:
        return catalog.resolve(session.id, agent.model, agent)
    except ApiError:
        return None
