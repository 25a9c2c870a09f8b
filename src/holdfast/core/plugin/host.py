"""The interface that a plugin gets. It has no access to policy and permissions.

Invariants
- During setup, registrations are only recorded; they take effect together, in one batch.
- Everything registered through a host ends with it, including later registrations.
- A closed host refuses registrations: a setup that timed out cannot add anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from holdfast.core.context.plugin import plugin_namespace, register_plugin_source
from holdfast.core.credential.integration import IntegrationDraft
from holdfast.core.scope import Scope
from holdfast.core.state import Draft, Phase
from holdfast.core.tool.call_permission import CallPermission, ask_by_default
from holdfast.schema.deferred import deferred
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.context.registry import SystemContextRegistry
    from holdfast.core.context.source import AnySource
    from holdfast.core.credential.integrations import Variable
    from holdfast.core.credential.store import CredentialValue
    from holdfast.core.event.bus import Subscription
    from holdfast.core.plugin.hooks import Hook, Hooks
    from holdfast.core.plugin.plugin_location import PluginLocation
    from holdfast.core.tool import typed
    from holdfast.core.tool.tool import Tool
    from holdfast.core.tool.typed import Approval
    from holdfast.schema.catalog import Connection
else:
    typed = deferred("holdfast.core.tool.typed")

EVENT_CAPACITY = 256
"""Buffered events per plugin; a plugin that falls further behind loses its subscription."""

Dispose: TypeAlias = Callable[[], None]
T = TypeVar("T")
D = TypeVar("D", bound=Draft)
D_co = TypeVar("D_co", bound=Draft, covariant=True)


class TransformableState(Protocol[D_co]):
    """A domain's state."""

    def transform(self, apply: Callable[[D_co], None], scope: Scope, *, phase: Phase, owner: str) -> Dispose: ...

    def reload(self) -> None: ...


class ConnectableState(TransformableState[IntegrationDraft], Protocol):
    """Integrations and their connections."""

    def active(self, id: str) -> Connection | None: ...

    async def resolve(self, id: str) -> CredentialValue | Variable | None: ...


class ToolRegistrar(Protocol):
    def register(
        self, tools: Mapping[str, Tool[Any, Any]], scope: Scope, permission: CallPermission | None = None
    ) -> Dispose: ...


class Events(Protocol):
    def subscribe(self, types: frozenset[str] | None = None, *, capacity: int = ...) -> Subscription: ...


class HostClosed(HoldfastError, RuntimeError):
    """The plugin was removed, replaced, or took too long to set up."""


class PluginHost:
    def __init__(
        self, id: str, options: Mapping[str, Any], location: PluginLocation, diagnose: Callable[[str, str], None]
    ) -> None:
        self.id = id
        self.options = dict(options)
        self.agent = PluginDomain(self, location.agents)
        self.command = PluginDomain(self, location.commands)
        self.catalog = PluginDomain(self, location.catalog)
        self.integration = PluginIntegrations(self, location.integrations)
        self.reference = PluginDomain(self, location.references)
        self.skill = PluginDomain(self, location.skills)
        self.context = PluginContext(self, location.context, diagnose)
        self.tool = PluginTools(self, location)
        self.request = PluginHooks(self, location.requests)
        self.events = PluginEvents(self, location.events)
        self.terminal = PluginHooks(self, location.terminals)
        self._scope = Scope()
        self._own = Scope()
        self._recorded: list[_PluginRegistration] = []
        self._active = False

    @property
    def active(self) -> bool:
        return self._active

    def on_close(self, undo: Callable[[], None]) -> None:
        """Register cleanup of the plugin's own resources. Also called if its setup fails."""
        self._own.add(undo)

    def register(self, take_effect: Callable[[Scope], Dispose]) -> Dispose:
        if self._own.closed:
            raise HostClosed(f"plugin {self.id} is not active any more")
        registration = _PluginRegistration(take_effect)
        if self._active:
            registration.begin(self._scope)
        self._recorded.append(registration)

        def dispose() -> None:
            if registration in self._recorded:
                self._recorded.remove(registration)
            registration.end()

        return dispose

    def activate(self) -> None:
        """Apply all recorded registrations, or raise and apply none. The caller opens the batch."""
        scope = Scope()
        try:
            for registration in tuple(self._recorded):
                registration.begin(scope)
        except Exception:
            scope.close()
            raise
        self._scope = scope
        self._active = True

    def suspend(self) -> None:
        """Remove the registrations until `activate` applies them again."""
        self._active = False
        self._scope.close()

    def close(self) -> None:
        self.suspend()
        self._own.close()


class _PluginRegistration:
    def __init__(self, take_effect: Callable[[Scope], Dispose]) -> None:
        self._take_effect = take_effect
        self._dispose: Dispose | None = None

    def begin(self, scope: Scope) -> None:
        self._dispose = self._take_effect(scope)

    def end(self) -> None:
        if self._dispose is not None:
            self._dispose()


class PluginDomain(Generic[D]):
    def __init__(self, host: PluginHost, state: TransformableState[D]) -> None:
        self._host = host
        self._state = state

    def transform(self, apply: Callable[[D], None]) -> Dispose:
        """Register a transform. It must be synchronous and quick: it runs at every rebuild, on a draft that is valid
        only during the call."""
        return self._host.register(
            lambda scope: self._state.transform(apply, scope, phase=Phase.PLUGIN, owner=self._host.id)
        )

    def reload(self) -> None:
        """Run the transforms again because their input changed. Does nothing during setup: all transforms run on
        activation."""
        if self._host.active:
            self._state.reload()


class PluginIntegrations(PluginDomain[IntegrationDraft]):
    def __init__(self, host: PluginHost, integrations: ConnectableState) -> None:
        super().__init__(host, integrations)
        self.connection = PluginConnections(integrations)


class PluginConnections:
    """Asynchronous, so that it runs on the event loop and not in the setup thread."""

    def __init__(self, integrations: ConnectableState) -> None:
        self._integrations = integrations

    async def active(self, id: str) -> Connection | None:
        """The active connection, without its secret."""
        return self._integrations.active(id)

    async def resolve(self, id: str) -> CredentialValue | Variable | None:
        """The active credential, refreshed if needed. Raises AuthorizationFailed."""
        return await self._integrations.resolve(id)


class PluginContext:
    def __init__(self, host: PluginHost, registry: SystemContextRegistry, diagnose: Callable[[str, str], None]) -> None:
        self._host = host
        self._registry = registry
        self._diagnose = diagnose

    @property
    def namespace(self) -> str:
        """The prefix of the keys of this plugin's sources."""
        return plugin_namespace(self._host.id)

    def register(self, source: AnySource) -> Dispose:
        return self._host.register(
            lambda scope: register_plugin_source(self._registry, self._host.id, source, scope, self._diagnose)
        )


class PluginTools:
    def __init__(self, host: PluginHost, location: PluginLocation) -> None:
        self._host = host
        self._location = location

    def register(
        self, tools: Mapping[str, Tool[Any, Any] | Callable[..., Any]], *, approval: Approval = False
    ) -> Dispose:
        """Register tools; a typed function with a docstring is one. Each call needs permission under the tool's name;
        agents without a rule for it ask. With `approval` a person approves each call, also where a rule allows it."""
        id, around = self._host.id, self._location
        made = typed.tools(tools, approval)

        def take_effect(scope: Scope) -> Dispose:
            remove = around.tools.register(made, scope, CallPermission(plugin=id))
            allow = around.agents.transform(ask_by_default(made), scope, phase=Phase.TOOL_RULES, owner=id)

            def dispose() -> None:
                remove()
                allow()

            return dispose

        return self._host.register(take_effect)


class PluginHooks(Generic[T]):
    """Request hooks, or hooks that add variables to each new terminal of this Location."""

    def __init__(self, host: PluginHost, hooks: Hooks[T]) -> None:
        self._host = host
        self._hooks = hooks

    def transform(self, hook: Hook[T]) -> Dispose:
        return self._host.register(lambda scope: self._hooks.register(self._host.id, hook, scope))


class PluginEvents:
    def __init__(self, host: PluginHost, events: Events) -> None:
        self._host = host
        self._events = events

    def subscribe(self, *types: str) -> Subscription:
        """Subscribe to these event types, or to all. It starts at once and ends with the plugin. A reader that falls
        behind gets an error."""
        subscription = self._events.subscribe(frozenset(types) if types else None, capacity=EVENT_CAPACITY)
        self._host.on_close(subscription.close)
        return subscription
