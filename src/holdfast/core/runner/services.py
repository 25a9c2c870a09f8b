"""What a runner works with, grouped by lifetime and purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from holdfast.core.agent.agents import Agents
    from holdfast.core.catalog.catalog import Catalog, ResolvedModel
    from holdfast.core.clock import Clock, Ids
    from holdfast.core.context.epoch import Epochs
    from holdfast.core.context.turn_context import TurnContext
    from holdfast.core.event.log import EventLog
    from holdfast.core.event.publisher import Publisher
    from holdfast.core.form.forms import Forms
    from holdfast.core.mcp.location_tools import McpTools
    from holdfast.core.permission.authority import Authorities
    from holdfast.core.permission.permission import Permissions
    from holdfast.core.plugin.request import RequestHooks
    from holdfast.core.question.question import Questions
    from holdfast.core.runner.learned import LearnedLimits
    from holdfast.core.runner.open_answers import OpenAnswers
    from holdfast.core.runner.settings import SessionSettings
    from holdfast.core.runner.titles import Titles
    from holdfast.core.session.budgets import Budgets
    from holdfast.core.session.inbox import Inbox
    from holdfast.core.session.ownership import Ownership
    from holdfast.core.session.store import SessionStore
    from holdfast.core.session.stored_activity import OpenRequest
    from holdfast.core.snapshot.snapshot import Snapshots
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.builtin.bash import ShellCommands
    from holdfast.core.tool.registry import ToolRegistry
    from holdfast.llm.route.transport import Transport
    from holdfast.schema.agent import Agent
    from holdfast.schema.instruction import InstructionEntry
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session


class SessionServices(Frozen):
    """Reads and records Sessions. One per process."""

    log: EventLog
    store: SessionStore
    inbox: Inbox
    ownership: Ownership
    epochs: Epochs
    titles: Titles
    budgets: Budgets
    open_answers: OpenAnswers
    ids: Ids
    clock: Clock


class ModelServices(Frozen):
    """Resolves and calls models. One per Location."""

    catalog: Catalog
    transport: Transport
    learned: LearnedLimits
    hooks: RequestHooks


class ToolServices(Frozen):
    """Offers and executes tools. One per Location."""

    registry: ToolRegistry
    commands: ShellCommands
    authorizer: Authorizer
    snapshots: Snapshots
    requests: PeopleRequests
    authorities: Authorities
    mcp: McpTools


class ContextComposer(Protocol):
    """Composes the System Context of a turn."""

    def compose(
        self, session: Session, agent: Agent, resolved: ResolvedModel, entries: Sequence[InstructionEntry]
    ) -> TurnContext:
        """The sources of one turn, with the Session's instruction entries; none of them is loaded."""

    def begin(self, session: Session, discovered: Sequence[str], ancestors: int) -> None:
        """Take over what a drain that begins has read: instruction files that the Session discovered, and how many
        ancestors it has."""


class LocationState(Frozen):
    """What a turn reads at its boundary. One per Location."""

    location: Location
    agents: Agents
    context: ContextComposer
    settings: Callable[[], SessionSettings]
    refresh: Callable[[], Awaitable[None]]
    """Takes over edits of the configuration. Called before anything else of a turn is read."""


class PeopleRequests:
    """The approvals, questions and forms that tools of a Location have open."""

    def __init__(self, permissions: Permissions, questions: Questions, forms: Forms) -> None:
        self._kinds = (permissions, questions, forms)

    async def abandon(self, opened: Sequence[OpenRequest], lease: Publisher, keep: Collection[tuple[str, str]]) -> None:
        """Close what an earlier process asked, except for the calls in `keep`, by message and call id."""
        for kind in self._kinds:
            await kind.abandon(opened, lease, keep)

    async def settled(self, session_id: str) -> None:
        """Returns when every request that this drain cut off is recorded as such."""
        for kind in self._kinds:
            await kind.settled(session_id)


class RunnerServices(Frozen):
    sessions: SessionServices
    models: ModelServices
    tools: ToolServices
    here: LocationState
