"""What a Location gives its runner. Nothing here is keyed by a Session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from holdfast.core.catalog.catalog import Catalog, ResolvedModel
    from holdfast.core.clock import Clock, Ids
    from holdfast.core.context.epoch import Epochs
    from holdfast.core.context.turn_context import TurnContext
    from holdfast.core.event.log import EventLog
    from holdfast.core.plugin.request import RequestHooks
    from holdfast.core.runner.learned import LearnedLimits
    from holdfast.core.runner.settings import SessionSettings
    from holdfast.core.session.inbox import Inbox
    from holdfast.core.session.ownership import Lease, Ownership
    from holdfast.core.session.store import SessionStore
    from holdfast.core.snapshot.snapshot import Snapshots
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.registry import ToolRegistry
    from holdfast.llm.route.transport import Transport
    from holdfast.schema.agent import Agent
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session


class Surroundings(Frozen):
    location: Location
    log: EventLog
    store: SessionStore
    inbox: Inbox
    ownership: Ownership
    epochs: Epochs
    catalog: Catalog
    tools: ToolRegistry
    authorizer: Authorizer
    snapshots: Snapshots
    transport: Transport
    ids: Ids
    clock: Clock
    learned: LearnedLimits
    settings: Callable[[], SessionSettings]
    refresh: Callable[[], Awaitable[None]]
    """Take over edits of the configuration; before anything of a turn is looked at."""
    agent: Callable[[Session], Agent]
    """The Session's agent, or the default one; raises AgentUnavailable for one without a record."""
    context: Callable[[Session, Agent, ResolvedModel], TurnContext]
    """Everything the model is told about its surroundings, for one turn."""
    summary_model: Callable[[Session], ResolvedModel | None]
    """Who writes summaries, if somebody else than the turn's own model was chosen for that."""
    hooks: RequestHooks
    abandon_requests: Callable[[str, Lease, Collection[str]], Awaitable[None]]
    """Close what an earlier process asked a person and can no longer hear, but for these calls."""
    requests_settled: Callable[[str], Awaitable[None]]
    """Until what this drain asked a person, and was cut off, is recorded so."""
    settled: Callable[[Session], None]
    """An exchange came to its end; whoever does background work may start."""
