"""The connection to the server, which may be started, killed and started again while the terminal stays.

Invariants
- A request is sent once. Whoever sent it decides whether it may be sent again.
- After a failure the next request looks for the server anew, and starts one if none runs: of several requests that
  wait, one looks and the others use what it found."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.client.errors import ClientError
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from holdfast.client.transport import AsyncTransport, Request, Response
    from holdfast.tui.launch import Place, Servers


class ServerConnection:
    """A transport to whichever server runs."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._finding = asyncio.Lock()
        self._transport: AsyncTransport | None = None
        self._lost = False
        self.place: Place | None = None

    async def send(self, request: Request) -> Response:
        transport = await self._current()
        try:
            return await transport.send(request)
        except ClientError as error:
            if error.reason == "Transport" and transport is self._transport:
                self._lost = True
            raise

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()

    async def _current(self) -> AsyncTransport:
        async with self._finding:
            if self._transport is not None and not self._lost:
                return self._transport
            try:
                place = await self._servers.find()
            except HoldfastError as error:
                if self.place is None:
                    raise  # there was no server from the start, and trying again would not help
                raise ClientError("Transport", str(error)) from error
            if self._transport is None or place[:2] != (self.place[:2] if self.place is not None else None):
                if self._transport is not None:
                    await self._transport.close()
                self._transport = self._servers.connect(place)
            self.place = place
            self._lost = False
            return self._transport
