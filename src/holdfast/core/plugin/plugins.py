"""The plugins of one Location: added, replaced, removed.

Invariants
- A plugin is there completely or not at all. Replacing happens in one step, so nobody sees neither or both.
- A new version that fails to load or to set up leaves the old one in force.
- Whatever a plugin does while it is set up takes bounded time and raises PluginFailed at worst."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.core.plugin.bounded import Patience
from holdfast.core.plugin.host import Host
from holdfast.core.plugin.plugin import Plugin, PluginBusy, PluginFailed, PluginProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.core.plugin.external import ExternalPlugin
    from holdfast.core.plugin.host import Location
    from holdfast.core.state import Batches

SETUP_SECONDS = 10.0
MOST_PROBLEMS = 200

log = logging.getLogger(__name__)


class Plugins:
    def __init__(
        self,
        location: Location,
        batches: Batches,
        added: Callable[[str], None] | None = None,
        *,
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
        self._sources: dict[str, str] = {}
        self._problems: list[PluginProblem] = []
        self._boot: asyncio.Task[None] | None = None
        self._boots: set[asyncio.Task[None]] = set()
        self._patience = Patience()

    def active(self) -> tuple[str, ...]:
        return tuple(self._active)

    def problems(self) -> tuple[PluginProblem, ...]:
        return tuple(self._problems)

    async def add(
        self, plugin: Plugin, options: Mapping[str, Any] | None = None, forget: Callable[[], None] | None = None
    ) -> None:
        """Set up; in place of the one that has its id. Raises PluginFailed. `forget` is called when it is gone."""
        id = plugin.id
        if id in self._loading:
            raise PluginBusy(f"plugin {id} is being loaded")
        self._loading.add(id)
        host = Host(id, options or {}, self._location, self.diagnose)
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
        if (host := self._active.pop(id, None)) is not None:
            with self._batches.batch():
                host.close()

    async def wait(self, id: str) -> None:
        """Until it is active; raises what its setup failed with."""
        await asyncio.shield(self._outcome(id))

    def start(self, found: Iterable[ExternalPlugin]) -> None:
        """Load in the background. Called again it loads anew: what is not named any more is removed."""
        former, wanted = self._boot, tuple(found)
        self._boot = asyncio.get_running_loop().create_task(self._load_all(former, wanted), name="plugins")
        self._boots.add(self._boot)
        self._boot.add_done_callback(self._boots.discard)

    async def booted(self) -> None:
        """Until what `start` was given has been loaded, or has failed to. Never raises for a plugin."""
        if self._boot is not None:
            await asyncio.wait({self._boot})

    @property
    def booting(self) -> bool:
        return self._boot is not None and not self._boot.done()

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

    def diagnose(self, id: str, message: str) -> None:
        log.warning("plugin %s: %s", id, message)
        self._problems.append(PluginProblem(id, message))
        del self._problems[:-MOST_PROBLEMS]

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
        if former is not None:
            former.close()

    async def _load_all(self, former: asyncio.Task[None] | None, wanted: tuple[ExternalPlugin, ...]) -> None:
        if former is not None:
            await asyncio.wait({former})
        sources: dict[str, str] = {}
        for external in wanted:
            try:
                plugin, forget = await external.load(self._seconds)
                sources[plugin.id] = external.name
                await self.add(plugin, external.options, forget)
            except PluginFailed as failure:
                self.diagnose(failure.id, failure.reason)
                # The file is still named: what it brought before stays.
                sources |= {id: name for id, name in self._sources.items() if name == external.name}
            except PluginBusy as busy:
                self.diagnose(external.name, str(busy))
        for id in self._sources.keys() - sources.keys():
            self.remove(id)
        self._sources = sources

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
