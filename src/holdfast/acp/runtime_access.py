"""The runtime in this process. It is opened beside the answer to `initialize`, so that an editor does not wait for it,
and once for all sessions of the connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.acp.editor_files import ConnectionFiles
from holdfast.acp.errors import failed
from holdfast.mcp.errors import RpcError
from holdfast.mcp.messages import INTERNAL_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.embedded.holdfast import Holdfast


class RuntimeAccess:
    def __init__(self, directory: str, on_open: Callable[[], None]) -> None:
        """`directory` is where this process was started; each session has its own. `on_open` is called when everything
        is imported."""
        self._directory = directory
        self._on_open = on_open
        self._opening: asyncio.Task[Holdfast] | None = None
        self.files = ConnectionFiles()

    def begin(self) -> None:
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.get_running_loop().create_task(self._open(), name="holdfast-open")

    async def host(self) -> Holdfast:
        """Raises RpcError if the runtime cannot be opened; the next request tries again."""
        from holdfast.schema.exceptions import HoldfastError

        self.begin()
        assert self._opening is not None
        try:
            return await asyncio.shield(self._opening)
        except HoldfastError as error:
            raise failed(error) from error
        except OSError as error:
            raise RpcError(INTERNAL_ERROR, f"The runtime cannot be opened: {error}") from error

    async def close(self) -> None:
        """Stops work at the nearest safe point and records it: the next process goes on."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()

    async def _open(self) -> Holdfast:
        # The answer to `initialize` is written before the imports, which take a few tenths of a second.
        await asyncio.sleep(0)
        from holdfast.embedded.holdfast import Holdfast

        host = Holdfast(self._directory, preset="allow", protect=True, recover=False, editor=self.files)
        await host.__aenter__()
        self._on_open()
        return host
