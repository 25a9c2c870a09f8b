"""The runtime that the tools use: a server on the same data, or one in this process.

It is opened with the first call, so that a client sees the tools at once, and again after a server has gone away."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient

log = logging.getLogger(__name__)


class RuntimeAccess:
    def __init__(self, directory: str, *, attach: str | None = None, standalone: bool = False) -> None:
        self._directory = directory
        self._attach = attach
        self._standalone = standalone
        self._opening: asyncio.Task[AsyncClient] | None = None
        self._stack = AsyncExitStack()
        self._client: AsyncClient | None = None
        self._remote = False

    async def client(self) -> AsyncClient:
        """A caller that is cancelled leaves the opening to the next one."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(), name="holdfast-open")
        opening = self._opening
        try:
            self._client = await asyncio.shield(opening)
        except asyncio.CancelledError:
            raise
        except BaseException:
            if self._opening is opening:
                self._opening = None
            raise
        return self._client

    def lost(self, client: AsyncClient) -> None:
        """The server does not answer any more: the next call looks for one again."""
        if self._remote and client is self._client:
            self._opening = self._client = None

    async def close(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            await asyncio.wait({opening})
        await self._stack.aclose()

    async def _open(self) -> AsyncClient:
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()
        self._remote = True
        if self._attach is not None:
            from holdfast.client.connect import connect

            return await self._stack.enter_async_context(connect(self._attach))
        from holdfast.cli.remote import find_server

        if not self._standalone and (found := await find_server(self._stack)) is not None:
            return found.client
        from holdfast.embedded.holdfast import Holdfast

        self._remote = False
        return await self._stack.enter_async_context(Holdfast(self._directory, preset="allow", protect=True))
