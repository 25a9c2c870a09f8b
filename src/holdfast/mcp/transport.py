"""The seam between a connection and what carries its messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from holdfast.mcp.errors import McpError
    from holdfast.mcp.versions import Version


class Route(msgspec.Struct, frozen=True):
    """What a transport needs to know of a message. `id` is that of a request that is sent, None for other messages."""

    method: str = ""
    id: int | None = None
    headers: Mapping[str, str] = {}
    repeatable: bool = True
    """Sending it twice does no harm."""


class Receiver(Protocol):
    def received(self, frame: bytes, answering: int | None = None) -> bool:
        """Takes one message; returns whether it is one. `answering` is the id of the request in whose answer it came,
        if the transport knows that."""

    def failed(self, id: int, error: McpError) -> bool:
        """The request will not be answered. False if no such request waits."""

    def waits(self, id: int) -> bool:
        """Whether the request still waits for its answer."""

    def closed(self, error: McpError) -> None:
        """No message will come any more."""


class Transport(Protocol):
    @property
    def cancels_by_closing(self) -> bool:
        """Cancelling `send` tells the server that the request is cancelled."""

    @property
    def has_headers(self) -> bool:
        """The headers of a route are sent."""

    async def start(self, receiver: Receiver) -> None:
        """Raises McpError if there is no way to the server."""

    async def send(self, frame: bytes, route: Route) -> None:
        """Sends one message. Returns when it was handed over; over HTTP when the answer of a request was received.
        Raises McpError if it was not sent or will not be answered. May be cancelled at any time: a message is then sent
        whole or not at all."""

    def adopt(self, version: Version) -> None:
        """The version is agreed upon."""

    def listen(self) -> None:
        """From now on the server may send messages by itself."""

    async def close(self) -> None:
        """Ends everything the transport has started. Further calls do nothing."""
