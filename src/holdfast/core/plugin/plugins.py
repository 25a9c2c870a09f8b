"""The plugins of one Location: adding, replacing, removing.

Invariants
- A plugin is active completely or not at all. It is replaced in one step, so that never both or neither are visible.
- A new version that fails to load or set up leaves the old one active.
- Setup has a time limit and raises only PluginFailed.
- After a reload, plugins are registered in configuration order, as after a first start. Unchanged plugins are not set
  up again."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.core.catalog.boot import PluginBoot
from holdfast.core.plugin.bounded import BoundedCalls
from holdfast.core.plugin.plugin import Plugin, PluginBusy, PluginFailed, PluginProblem
from holdfast.core.plugin.problems import PluginProblems
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.core.plugin import host as plugin_host
    from holdfast.core.plugin.external import ExternalPlugin
    from holdfast.core.plugin.host import PluginHost
    from holdfast.core.plugin.plugin_location import PluginLocation
    from holdfast.core.state import Batches
else:
    plugin_host = deferred("holdfast.core.plugin.host")

SETUP_SECONDS = 10.0

log = logging.getLogger(__name__)


class _ActivePlugin(Frozen):
    id: str
    external: ExternalPlugin


class Plugins:
    def __init__(
        self,
        location: PluginLocation,
        batches: Batches,
        added: Callable[[str], None] | None = None,
        *,
        problems: PluginProblems | None = None,
        boot: PluginBoot | None = None,
        seconds: float = SETUP_SECONDS,
    ) -> None:
        """`added` is called when everything of a plugin is visible."""
        self._location = location
        self._batches = batches
        self._added = added
        self._seconds = seconds
        self._active: dict[str, PluginHost] = {}
        self._loading: set[str] = set()
        self._loaded: dict[str, _ActivePlugin] = {}
        self._problems = problems or PluginProblems()
        self._refused: tuple[PluginProblem, ...] = ()
        self._failed: tuple[PluginProblem, ...] = ()
        self._boot = boot or PluginBoot()
        self._latest: asyncio.Task[None] | None = None
        self._boots: set[asyncio.Task[None]] = set()
        self._calls = BoundedCalls()

    def active(self) -> tuple[str, ...]:
        return tuple(self._active)

    def problems(self) -> tuple[PluginProblem, ...]:
        """Problems of the last load, and of plugins since their setup."""
        return (*self._refused, *self._failed, *self._problems.list())

    async def add(
        self, plugin: Plugin, options: Mapping[str, Any] | None = None, forget: Callable[[], None] | None = None
    ) -> None:
        """Set up a plugin, replacing one with the same id. Raises PluginFailed. `forget` is called when it is
        removed."""
        id = plugin.id
        if id in self._loading:
            raise PluginBusy(f"plugin {id} is being loaded")
        self._loading.add(id)
        host = plugin_host.PluginHost(id, options or {}, self._location, self._problems.report)
        if forget is not None:
            host.on_close(forget)
        try:
            await self._set_up(plugin, host)
            self._replace(id, host)
        except (PluginFailed, asyncio.CancelledError):
            host.close()
            raise
        finally:
            self._loading.discard(id)
        if self._added is not None:
            self._added(id)

    def remove(self, id: str) -> None:
        if id in self._loading:
            raise PluginBusy(f"plugin {id} is being loaded")
        self._problems.forget(id)
        if (host := self._active.pop(id, None)) is not None:
            with self._batches.batch():
                host.close()

    def start(self, found: Iterable[ExternalPlugin], refused: Iterable[PluginProblem] = ()) -> None:
        """Load plugins in the background; `refused` are those that may not be loaded. A further call loads new and
        changed plugins, retries failed ones and removes those no longer named. The registration order is always that of
        a first start."""
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
        """Wait until the plugins given to `start` are loaded or have failed. Never raises for a plugin."""
        await self._boot.wait()

    async def close(self) -> None:
        boots = tuple(self._boots)  # a later one may wait for an earlier one
        for boot in boots:
            boot.cancel()
        if boots:
            await asyncio.wait(boots)
        with self._batches.batch():
            while self._active:
                self._active.popitem()[1].close()

    async def _set_up(self, plugin: Plugin, host: PluginHost) -> None:
        try:
            await self._calls.call(plugin.setup, host, self._seconds)
        except TimeoutError as error:
            raise PluginFailed(host.id, f"its setup took longer than {self._seconds:g} s") from error
        except Exception as error:
            raise PluginFailed(host.id, f"its setup failed: {type(error).__name__}: {error}") from error

    def _replace(self, id: str, host: PluginHost) -> None:
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
                loaded = known  # the old version stays; its digest differs, so that loading is retried
            if loaded is not None:
                if moved and loaded is known:
                    self._register_again(loaded.id, failed)
                self._loaded[external.name] = loaded
        kept = {loaded.id for loaded in self._loaded.values()}
        for id in {loaded.id for loaded in before.values()} - kept:
            self.remove(id)
        self._failed = tuple(failed)

    async def _load(self, external: ExternalPlugin, failed: list[PluginProblem]) -> _ActivePlugin | None:
        try:
            imported = await external.load(self._seconds)
            await self.add(imported.plugin, external.options, imported.forget)
            return _ActivePlugin(imported.plugin.id, external)
        except PluginFailed as failure:
            problem = PluginProblem(failure.id, failure.reason, external.declared)
        except PluginBusy as busy:
            problem = PluginProblem(external.name, str(busy), external.declared)
        log.warning("plugin %s: %s", problem.id, problem.message)
        failed.append(problem)
        return None

    def _register_again(self, id: str, failed: list[PluginProblem]) -> None:
        """Register again after the plugins before it, without a new setup."""
        host = self._active.pop(id)
        with self._batches.batch():
            host.suspend()
            try:
                host.activate()
            except Exception as error:  # noqa: BLE001 - plugin code may raise anything
                failed.append(PluginProblem(id, f"its registrations were refused: {error}"))
                host.close()
                return
        self._active[id] = host
