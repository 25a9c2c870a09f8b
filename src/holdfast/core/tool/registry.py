"""The registered tools of a Location, and the tools that one turn may call.

Invariants
- The newest live registration of a name wins; a Location's tools win over the application's.
- A call runs on the registration that was advertised to the model. If the name now has another registration, or none,
  the call fails. What a request offers beside the registered tools stays callable for its turn.
- While no registration changes, equal rules give the same definition objects in the same order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.core.filesystem.image import ImageLimits
from holdfast.core.permission.rules import wholly_denied
from holdfast.core.state import Batches, Phase, State
from holdfast.core.tool.call_permission import CallPermission
from holdfast.core.tool.output import bound
from holdfast.core.tool.preview import OutputLimits, bounded_text
from holdfast.core.tool.registration import Registration
from holdfast.core.tool.tool import CallOutput, Tool, ToolContext, ToolFailure
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.core.permission.rules import Fences
    from holdfast.core.scope import Scope
    from holdfast.core.tool import media
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.output import OutputStore
    from holdfast.llm.request import ToolDefinition
    from holdfast.schema.permission import Rule
else:
    media = deferred("holdfast.core.tool.media")

UNKNOWN = "Unknown tool: {name}"
STALE = "Stale tool call: {name}"

CACHED_RULE_SETS = 64


class ToolPlacement:
    """The live registrations of the application or of one Location."""

    def __init__(self, batches: Batches | None = None) -> None:
        self._state: State[dict[str, Registration]] = State(dict, batches or Batches())

    def register(
        self, tools: Mapping[str, Tool[Any, Any]], scope: Scope, permission: CallPermission | None = None
    ) -> Callable[[], None]:
        """Register all tools until the scope closes, or none: raises RegistrationError. The returned function
        unregisters them early. `permission` checks the calls of tools that do not check them themselves."""
        registrations = {name: Registration(name, tool, permission) for name, tool in tools.items()}
        if not registrations:
            return lambda: None
        return self._state.transform(lambda draft: draft.update(registrations), scope, phase=Phase.PLUGIN)

    @property
    def current(self) -> Mapping[str, Registration]:
        """A new object after each change."""
        return self._state.value


class ApplicationTools(ToolPlacement):
    """Tools that the host program offers in every Location. The rules of each Location apply to them by name."""

    def register(
        self,
        tools: Mapping[str, Tool[Any, Any]],
        scope: Scope,
        permission: CallPermission | None = CallPermission(),  # noqa: B008 - immutable
    ) -> Callable[[], None]:
        return super().register(tools, scope, permission)


class ToolRegistry:
    """The tools of one Location."""

    def __init__(
        self,
        application: ApplicationTools | None = None,
        store: OutputStore | None = None,
        *,
        limits: Callable[[], OutputLimits] = OutputLimits,
        images: Callable[[], ImageLimits] = ImageLimits,
        authorizer: Authorizer | None = None,
        batches: Batches | None = None,
    ) -> None:
        """`limits` and `images` are called at each settlement, as configuration may change. Without a store, omitted
        output is lost. `authorizer` answers for tools of plugins and of the host program."""
        self._application = application or ApplicationTools()
        self._own = ToolPlacement(batches)
        self.store = store
        """Where complete outputs are saved."""
        self._limits = limits
        self._images = images
        self._authorizer = authorizer
        self._media_slots = asyncio.Semaphore(media.CONCURRENT_RESULTS)
        self._catalog = _Catalog({}, {})

    def register(
        self, tools: Mapping[str, Tool[Any, Any]], scope: Scope, permission: CallPermission | None = None
    ) -> Callable[[], None]:
        """See `ToolPlacement.register`."""
        return self._own.register(tools, scope, permission)

    @property
    def names(self) -> Iterable[str]:
        """The names of all registered tools."""
        return self._current().registrations.keys()

    def looks_only(self, name: str) -> bool:
        """Whether a registered tool cannot change project files."""
        found = self._current().registrations.get(name)
        return found is not None and found.read_only

    def materialize(
        self,
        rules: Sequence[Rule],
        *,
        fences: Fences = (),
        without: frozenset[str] = frozenset(),
        begun: frozenset[str] = frozenset(),
        also: tuple[Registration, ...] = (),
    ) -> Materialized:
        """The tools that an agent with these rules may call in one turn, except the names in `without`. The names in
        `begun` are there in any case: calls of them have begun and are executed again. `also` are tools that are not
        registered; they follow the others, and yield to a registered tool of the same name."""
        shown = self._current().shown(tuple(rules), tuple(fences), without, also)
        return Materialized(self, self._current().begun(shown, begun) if begun else shown)

    def _current(self) -> _Catalog:
        application, own = self._application.current, self._own.current
        if self._catalog.application is not application or self._catalog.own is not own:
            self._catalog = _Catalog(application, own)
        return self._catalog


class Materialized:
    """The tools of one turn: the definitions sent to the model, and the execution of its calls."""

    def __init__(self, registry: ToolRegistry, shown: _VisibleTools) -> None:
        self._registry = registry
        self._shown = shown
        self.definitions = shown.definitions

    async def execute(self, name: str, arguments: Any, context: ToolContext) -> CallOutput:
        """Execute a call up to its normalised output. This part may be interrupted."""
        try:
            registration = self._resolve(name)
            if (translate := registration.other_names.get(name)) is not None:
                arguments = translate(arguments)
            output = await registration.execute(arguments, context, self._registry._authorizer)
            return await media.normalise_media(output, self._registry._images(), self._registry._media_slots)
        except ToolFailure as failure:
            failure.args = (bounded_text(str(failure), self._registry._limits()),)
            raise

    async def bound(self, output: CallOutput) -> CallOutput:
        """Apply the output limits and save the complete text. This part must not be interrupted."""
        return await bound(output, self._registry._limits(), self._registry.store)

    def look_only(self, names: Iterable[str]) -> bool:
        """Whether none of these tools can change project files. Tools that were not advertised did not run."""
        found = (self._shown.of(name) for name in names)
        return all(shown is None or shown.read_only for shown in found)

    def grace(self, name: str) -> float | None:
        """How many seconds this tool may take to stop, if it needs longer than others."""
        shown = self._shown.of(name)
        return shown.grace if shown is not None else None

    def _resolve(self, name: str) -> Registration:
        advertised = self._shown.of(name)
        if advertised is None:
            raise ToolFailure(UNKNOWN.format(name=name))
        registered = self._registry._current().registrations.get(advertised.name)
        if registered is not advertised and advertised not in self._shown.also:
            raise ToolFailure(STALE.format(name=name))
        return advertised


class _VisibleTools(Frozen):
    registrations: Mapping[str, Registration]
    definitions: tuple[ToolDefinition, ...]
    also: frozenset[Registration]
    """Those that are not registered."""

    def of(self, name: str) -> Registration | None:
        """The tool of this name, or the one that also accepts calls under it."""
        own = self.registrations.get(name)
        return own or next((found for found in self.registrations.values() if name in found.other_names), None)


class _Catalog:
    """All tools between two changes of the registrations; caches which of them each set of rules allows."""

    def __init__(self, application: Mapping[str, Registration], own: Mapping[str, Registration]) -> None:
        self.application = application
        self.own = own
        self.registrations = {**application, **own}
        self._seen: dict[tuple[object, ...], _VisibleTools] = {}

    def begun(self, shown: _VisibleTools, names: frozenset[str]) -> _VisibleTools:
        """With the tools of these names, or that accept calls under them."""
        more = {name: each for name, each in self.registrations.items() if names & {name, *each.other_names}}
        return shown.replace(registrations={**shown.registrations, **more})

    def shown(
        self, rules: tuple[Rule, ...], fences: Fences, without: frozenset[str], also: tuple[Registration, ...]
    ) -> _VisibleTools:
        key = (rules, fences, without, also)
        if (known := self._seen.get(key)) is not None:
            return known
        offered = {tool.name: tool for tool in also if tool.name not in self.registrations}
        visible = {
            name: registration
            for name, registration in {**self.registrations, **offered}.items()
            if name not in without and not wholly_denied(rules, registration.action, fences)
        }
        definitions = tuple(registration.definition for registration in visible.values())
        shown = _VisibleTools(visible, definitions, frozenset(offered.values()))
        if len(self._seen) >= CACHED_RULE_SETS:
            self._seen.clear()
        self._seen[key] = shown
        return shown
