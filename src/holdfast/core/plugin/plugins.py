"""The plugins of one Location: added, replaced, removed.

Invariants
- A plugin is there completely or not at all. Replacing happens in one step, so nobody sees neither or both.
- A new version that fails to load or to set up leaves the old one in force.
- Whatever a plugin does while it is set up takes bounded time and raises PluginFailed at worst.
- After loading again, plugins are registered in the order of the configuration, as after a first start. One that did
  not change is not set up again."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.core.catalog.boot import PluginBoot
from holdfast.core.plugin.bounded import Patience
from holdfast.core.plugin.host import Host
from holdfast.core.plugin.plugin import Plugin, PluginBusy, PluginFailed, PluginProblem
from holdfast.core.plugin.problems import PluginProblems
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.core.plugin.external import ExternalPlugin
    from holdfast.core.plugin.host import Location
    from holdfast.core.state import Batches

SETUP_SECONDS = 10.0

log = logging.getLogger(__name__)


class _Loaded(Frozen):
    id: str
    external: ExternalPlugin


class Plugins:
    def __init__(
        self,
        location: Location,
        batches: Batches,
        added: Callable[[str], None] | None = None,
        *,
        problems: PluginProblems | None = None,
        boot: PluginBoot | None = None,
        seconds: float = SETUP_SECONDS,
    ) -> None:
        """`added` is told of a plugin once all that it brings can be seen."""
        self._location = location
        self._batches = batches
        self._added = added
        self._seconds = seconds
        self._active: dict[str, Host] = {}
        self._loading: set[str] = set()
        self._outcomes: dict[str, asyncio.Future[None]] = {}
        self._loaded: dict[str, _Loaded] = {}
        self._problems = problems or PluginProblems()
        self._refused: tuple[PluginProblem, ...] = ()
        self._failed: tuple[PluginProblem, ...] = ()
        self._boot = boot or PluginBoot()
        self._latest: asyncio.Task[None] | None = None
        self._boots: set[asyncio.Task[None]] = set()
        self._patience = Patience()

    def active(self) -> tuple[str, ...]:
        return tuple(self._active)

    def problems(self) -> tuple[PluginProblem, ...]:
        """Of the last loading, and what plugins did wrong since they were set up."""
        return (*self._refused, *self._failed, *self._problems.list())

    async def add(
        self, plugin: Plugin, options: Mapping[str, Any] | None = None, forget: Callable[[], None] | None = None
    ) -> None:
        """Set up; in place of the one that has its id. Raises PluginFailed. `forget` is called when it is gone."""
        id = plugin.id
        if id in self._loading:
            raise PluginBusy(f"plugin {id} is being loaded")
        self._loading.add(id)
        host = Host(id, options or {}, self._location, self._problems.report)
        if forget is not None:
            host.on_close(forget)
        try:
            await self._set_up(plugin, host)
            self._replace(id, host)
        except PluginFailed as failure:
            host.close()
            self._settle(id, failure)
            raise
        except asyncio.CancelledError:
            host.close()
            raise
        finally:
            self._loading.discard(id)
        self._settle(id, None)
        if self._added is not None:
            self._added(id)

    def remove(self, id: str) -> None:
        if id in self._loading:
            raise PluginBusy(f"plugin {id} is being loaded")
        self._outcomes.pop(id, None)
        self._problems.forget(id)
        if (host := self._active.pop(id, None)) is not None:
            with self._batches.batch():
                host.close()

    async def wait(self, id: str) -> None:
        """Until it is active; raises what its setup failed with."""
        await asyncio.shield(self._outcome(id))

    def start(self, found: Iterable[ExternalPlugin], refused: Iterable[PluginProblem] = ()) -> None:
        """Load in the background; `refused` are those that may not be. Called again it loads what is new or was
        changed, tries again what failed, and removes what is not named any more. Afterwards everything is registered in
        the order that a first start would give."""
        self._refused = tuple(refused)
        wanted = tuple({external.name: external for external in found}.values())
        known = tuple(loaded.external for loaded in self._loaded.values())
        if not self._boot.running and wanted == known and not self._failed:
            return
        loading = self._load_all(self._latest, wanted)
        self._latest = asyncio.get_running_loop().create_task(loading, name="plugins")
        self._boot.begin(self._latest)
        self._boots.add(self._latest)
        self._latest.add_done_callback(self._boots.discard)

    async def booted(self) -> None:
        """Until what `start` was given has been loaded, or has failed to. Never raises for a plugin."""
        await self._boot.wait()

    async def close(self) -> None:
        boots = tuple(self._boots)  # one may still wait for the one before it
        for boot in boots:
            boot.cancel()
        if boots:
            await asyncio.wait(boots)
        with self._batches.batch():
            while self._active:
                self._active.popitem()[1].close()
        for outcome in self._outcomes.values():
            outcome.cancel()

    async def _set_up(self, plugin: Plugin, host: Host) -> None:
        try:
            await self._patience.call(plugin.setup, host, self._seconds)
        except TimeoutError as error:
            raise PluginFailed(host.id, f"its setup took longer than {self._seconds:g} s") from error
        except Exception as error:
            raise PluginFailed(host.id, f"its setup failed: {type(error).__name__}: {error}") from error

    def _replace(self, id: str, host: Host) -> None:
        former = self._active.pop(id, None)
        with self._batches.batch():
            if former is not None:
                former.suspend()
            try:
                host.activate()
            except Exception as error:
                if former is not None:
                    former.activate()
                    self._active[id] = former
                raise PluginFailed(id, f"its registrations were refused: {error}") from error
        self._active[id] = host
        self._problems.forget(id)
        if former is not None:
            former.close()

    async def _load_all(self, former: asyncio.Task[None] | None, wanted: tuple[ExternalPlugin, ...]) -> None:
        if former is not None:
            await asyncio.wait({former})
        before, self._loaded = self._loaded, {}
        failed: list[PluginProblem] = []
        moved = False
        for external in wanted:
            known = before.get(external.name)
            if known is None or known.external != external or known.id not in self._active:
                loaded = await self._load(external, failed)
                moved = True
            else:
                loaded = known
            if loaded is None and known is not None and known.id in self._active:
                loaded = known  # what worked stays; its file differs from what was loaded, so that it is tried again
            if loaded is not None:
                if moved and loaded is known:
                    self._register_again(loaded.id, failed)
                self._loaded[external.name] = loaded
        kept = {loaded.id for loaded in self._loaded.values()}
        for id in {loaded.id for loaded in before.values()} - kept:
            self.remove(id)
        self._failed = tuple(failed)

    async def _load(self, external: ExternalPlugin, failed: list[PluginProblem]) -> _Loaded | None:
        try:
            plugin, forget = await external.load(self._seconds)
            await self.add(plugin, external.options, forget)
            return _Loaded(plugin.id, external)
        except PluginFailed as failure:
            problem = PluginProblem(failure.id, failure.reason, external.declared)
        except PluginBusy as busy:
            problem = PluginProblem(external.name, str(busy), external.declared)
        log.warning("plugin %s: %s", problem.id, problem.message)
        failed.append(problem)
        return None

    def _register_again(self, id: str, failed: list[PluginProblem]) -> None:
        """The same registrations after those of the plugins before it, without setting it up anew."""
        host = self._active.pop(id)
        with self._batches.batch():
            host.suspend()
            try:
                host.activate()
            except Exception as error:  # noqa: BLE001 - a plugin's registrations may do anything
                failed.append(PluginProblem(id, f"its registrations were refused: {error}"))
                host.close()
                return
        self._active[id] = host

    def _settle(self, id: str, failure: PluginFailed | None) -> None:
        outcome = self._outcome(id)
        if outcome.done():
            outcome = self._outcomes[id] = asyncio.get_running_loop().create_future()
        if failure is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(failure)
            outcome.exception()  # seen: nobody has to wait for it

    def _outcome(self, id: str) -> asyncio.Future[None]:
        if id not in self._outcomes:
            self._outcomes[id] = asyncio.get_running_loop().create_future()
        return self._outcomes[id]
