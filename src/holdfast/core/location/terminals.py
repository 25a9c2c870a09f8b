"""The terminals of a Location, opened when the first one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.lazy import Lazy
    from holdfast.core.plugin.plugins import Plugins
    from holdfast.core.plugin.terminal import TerminalHooks
    from holdfast.core.pty.ptys import Ptys
    from holdfast.schema.location import Location


class Terminals:
    def __init__(self, location: Location, ptys: Lazy[Ptys], hooks: TerminalHooks, plugins: Plugins) -> None:
        self._location = location
        self._ptys = ptys
        self._hooks = hooks
        self._plugins = plugins

    @property
    def ptys(self) -> Ptys:
        return self._ptys()

    @property
    def busy(self) -> bool:
        return self._ptys.made is not None and self._ptys.made.busy

    async def environment(self, cwd: str) -> dict[str, str]:
        """What plugins add to the variables of a terminal that starts in `cwd`. Waits for plugins that are loading."""
        await self._plugins.booted()
        return await self._hooks.variables(self._location.directory, cwd)

    async def close(self) -> None:
        if self._ptys.made is not None:
            await self._ptys.made.close()
