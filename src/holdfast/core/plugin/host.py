"""What a plugin is given: a few typed doors, nothing else. Policy and permissions have none.

Invariants
- While a plugin is set up its registrations are only written down; they take effect together, in one batch.
- Everything registered through a host ends with it, also what is registered later.
- A host that was closed refuses: a setup that ran too long cannot add anything afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from holdfast.core.context.plugin import plugin_namespace, register_plugin_source
from holdfast.core.credential.integration import IntegrationDraft
from holdfast.core.scope import Scope
from holdfast.core.state import Draft, Phase
from holdfast.core.tool.untrusted import ask_by_default, with_permission
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.agent.draft import AgentDraft
    from holdfast.core.catalog.draft import Draft as CatalogDraft
    from holdfast.core.command.command import CommandDraft
    from holdfast.core.context.registry import SystemContextRegistry
    from holdfast.core.context.source import AnySource
    from holdfast.core.credential.integrations import Variable
    from holdfast.core.credential.store import Value
    from holdfast.core.event.bus import Subscription
    from holdfast.core.plugin.request import RequestHook, RequestHooks
    from holdfast.core.plugin.terminal import TerminalHook, TerminalHooks
    from holdfast.core.reference.reference import References
    from holdfast.core.skill.skill import SkillSources
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.tool import Tool
    from holdfast.schema.catalog import Connection

EVENT_CAPACITY = 256
"""Events that may wait for a plugin; one that falls further behind loses its subscription."""

Dispose: TypeAlias = Callable[[], None]
D = TypeVar("D", bound=Draft)
D_co = TypeVar("D_co", bound=Draft, covariant=True)


class Transformed(Protocol[D_co]):
    """A domain's state."""

    def transform(self, apply: Callable[[D_co], None], scope: Scope, *, phase: Phase, owner: str) -> Dispose: ...

    def reload(self) -> None: ...


class Connected(Transformed[IntegrationDraft], Protocol):
    """Integrations, with what they are connected with."""

    def active(self, id: str) -> Connection | None: ...

    async def resolve(self, id: str) -> Value | Variable | None: ...


class ToolRegistrar(Protocol):
    def register(self, tools: Mapping[str, Tool[Any, Any]], scope: Scope) -> Dispose: ...


class Events(Protocol):
    def subscribe(self, types: frozenset[str] | None = None, *, capacity: int = ...) -> Subscription: ...


class Location(Frozen):
    """The parts of a Location that plugins may add to."""

    agents: Transformed[AgentDraft]
    commands: Transformed[CommandDraft]
    context: SystemContextRegistry
    tools: ToolRegistrar
    authorizer: Authorizer
    """Who is asked before a plugin's tool runs."""
    requests: RequestHooks
    events: Events
    catalog: Transformed[CatalogDraft]
    integrations: Connected
    references: Transformed[References]
    skills: Transformed[SkillSources]
    terminals: TerminalHooks


class HostClosed(HoldfastError, RuntimeError):
    """The plugin was removed, replaced, or took too long to set up."""


class Host:
    def __init__(
        self, id: str, options: Mapping[str, Any], location: Location, diagnose: Callable[[str, str], None]
    ) -> None:
        self.id = id
        self.options = dict(options)
        self.agent = Domain(self, location.agents)
        self.command = Domain(self, location.commands)
        self.catalog = Domain(self, location.catalog)
        self.integration = IntegrationDoor(self, location.integrations)
        self.reference = Domain(self, location.references)
        self.skill = Domain(self, location.skills)
        self.context = ContextDoor(self, location.context, diagnose)
        self.tool = ToolDoor(self, location)
        self.request = RequestDoor(self, location.requests)
        self.events = EventDoor(self, location.events)
        self.terminal = TerminalDoor(self, location.terminals)
        self._scope = Scope()
        self._own = Scope()
        self._written: list[_Registration] = []
        self._active = False

    @property
    def active(self) -> bool:
        return self._active

    def on_close(self, undo: Callable[[], None]) -> None:
        """For what a plugin started by itself. Also called when its setup fails."""
        self._own.add(undo)

    def register(self, take_effect: Callable[[Scope], Dispose]) -> Dispose:
        if self._own.closed:
            raise HostClosed(f"plugin {self.id} is not active any more")
        registration = _Registration(take_effect)
        if self._active:
            registration.begin(self._scope)
        self._written.append(registration)

        def dispose() -> None:
            if registration in self._written:
                self._written.remove(registration)
            registration.end()

        return dispose

    def activate(self) -> None:
        """All that was written down, in one step; the caller wraps it into a batch. All of it, or it raises."""
        scope = Scope()
        try:
            for registration in tuple(self._written):
                registration.begin(scope)
        except Exception:
            scope.close()
            raise
        self._scope = scope
        self._active = True

    def suspend(self) -> None:
        """Take the registrations out of effect; `activate` brings them back."""
        self._active = False
        self._scope.close()

    def close(self) -> None:
        self.suspend()
        self._own.close()


class _Registration:
    def __init__(self, take_effect: Callable[[Scope], Dispose]) -> None:
        self._take_effect = take_effect
        self._dispose: Dispose | None = None

    def begin(self, scope: Scope) -> None:
        self._dispose = self._take_effect(scope)

    def end(self) -> None:
        if self._dispose is not None:
            self._dispose()


class Domain(Generic[D]):
    def __init__(self, host: Host, state: Transformed[D]) -> None:
        self._host = host
        self._state = state

    def transform(self, apply: Callable[[D], None]) -> Dispose:
        """Synchronous and quick: it runs at every rebuild, on a draft that is only valid while it runs."""
        return self._host.register(
            lambda scope: self._state.transform(apply, scope, phase=Phase.PLUGIN, owner=self._host.id)
        )

    def reload(self) -> None:
        """Something that a transform reads has changed. While the plugin is set up there is nothing to run again, and
        its thread may not: everything runs when it becomes active."""
        if self._host.active:
            self._state.reload()


class IntegrationDoor(Domain[IntegrationDraft]):
    def __init__(self, host: Host, integrations: Connected) -> None:
        super().__init__(host, integrations)
        self.connection = ConnectionDoor(integrations)


class ConnectionDoor:
    """Asynchronous, so that the loop looks, and not the thread of a setup."""

    def __init__(self, integrations: Connected) -> None:
        self._integrations = integrations

    async def active(self, id: str) -> Connection | None:
        """What that integration is connected with now, without its secret."""
        return self._integrations.active(id)

    async def resolve(self, id: str) -> Value | Variable | None:
        """Its credential, refreshed if need be. Raises AuthorizationFailed."""
        return await self._integrations.resolve(id)


class ContextDoor:
    def __init__(self, host: Host, registry: SystemContextRegistry, diagnose: Callable[[str, str], None]) -> None:
        self._host = host
        self._registry = registry
        self._diagnose = diagnose

    @property
    def namespace(self) -> str:
        """What the keys of this plugin's sources begin with."""
        return plugin_namespace(self._host.id)

    def register(self, source: AnySource) -> Dispose:
        return self._host.register(
            lambda scope: register_plugin_source(self._registry, self._host.id, source, scope, self._diagnose)
        )


class ToolDoor:
    def __init__(self, host: Host, location: Location) -> None:
        self._host = host
        self._location = location

    def register(self, tools: Mapping[str, Tool[Any, Any]]) -> Dispose:
        """Each call of them needs permission, under the tool's name: agents that have no rule for it ask."""
        id, around = self._host.id, self._location
        given = {name: with_permission(tool, name, id, around.authorizer) for name, tool in tools.items()}

        def take_effect(scope: Scope) -> Dispose:
            remove = around.tools.register(given, scope)
            allow = around.agents.transform(ask_by_default(given), scope, phase=Phase.TOOL_RULES, owner=id)

            def dispose() -> None:
                remove()
                allow()

            return dispose

        return self._host.register(take_effect)


class RequestDoor:
    def __init__(self, host: Host, hooks: RequestHooks) -> None:
        self._host = host
        self._hooks = hooks

    def transform(self, hook: RequestHook) -> Dispose:
        return self._host.register(lambda scope: self._hooks.register(self._host.id, hook, scope))


class EventDoor:
    def __init__(self, host: Host, events: Events) -> None:
        self._host = host
        self._events = events

    def subscribe(self, *types: str) -> Subscription:
        """Those types, or all. Begins at once, ends with the plugin, and is bounded: a reader that falls behind
        fails, and nobody waits for it."""
        subscription = self._events.subscribe(frozenset(types) if types else None, capacity=EVENT_CAPACITY)
        self._host.on_close(subscription.close)
        return subscription


class TerminalDoor:
    def __init__(self, host: Host, hooks: TerminalHooks) -> None:
        self._host = host
        self._hooks = hooks

    def transform(self, hook: TerminalHook) -> Dispose:
        """Called before each terminal of this Location starts, to add variables to its environment."""
        return self._host.register(lambda scope: self._hooks.register(self._host.id, hook, scope))
