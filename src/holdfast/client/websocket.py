"""WebSockets over the network, on the websockets library."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import connect as connect_async
from websockets.asyncio.client import unix_connect as unix_connect_async
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.sync.client import connect as connect_sync
from websockets.sync.client import unix_connect as unix_connect_sync

from holdfast.client.errors import ClientError
from holdfast.client.transport import SocketClosed, SocketRefused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from websockets.asyncio.client import ClientConnection
    from websockets.sync.client import ClientConnection as SyncClientConnection

OPEN_SECONDS = 10.0
MESSAGE_BYTES = 1024 * 1024
"""Largest message; a server sends terminal output in pieces of 64 Ki characters."""
UNREACHABLE = "cannot reach the server"


class NetworkSocket:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def receive(self) -> str | bytes:
        with _closing():
            return await self._connection.recv()

    async def send(self, text: str) -> None:
        with _closing():
            await self._connection.send(text)

    async def close(self) -> None:
        await self._connection.close()


class SyncNetworkSocket:
    """Another thread may close it while one is waiting for a message."""

    def __init__(self, connecting: SyncClientConnection) -> None:
        # The library requires a `with` block; this one ends in `close`.
        self._open = ExitStack()
        self._connection = self._open.enter_context(connecting)

    def receive(self) -> str | bytes:
        with _closing():
            return self._connection.recv()

    def send(self, text: str) -> None:
        with _closing():
            self._connection.send(text)

    def close(self) -> None:
        self._open.close()


async def open_socket(
    url: str, headers: Mapping[str, str], timeout: float | None, *, direct: bool, local: str | None = None
) -> NetworkSocket:
    """`direct` ignores the proxies of the environment. `local` is the path of a Unix socket to connect to
    instead of the address in the URL."""
    options = _options(headers, timeout)
    with _opening():
        if local is not None:
            return NetworkSocket(await unix_connect_async(local, url, **options))
        return NetworkSocket(await connect_async(url, **options, proxy=None if direct else True))


def open_socket_sync(
    url: str, headers: Mapping[str, str], timeout: float | None, *, direct: bool, local: str | None = None
) -> SyncNetworkSocket:
    """As `open_socket`."""
    options = _options(headers, timeout)
    with _opening():
        if local is not None:
            return SyncNetworkSocket(unix_connect_sync(local, url, **options))
        return SyncNetworkSocket(connect_sync(url, **options, proxy=None if direct else True))


def _options(headers: Mapping[str, str], timeout: float | None) -> dict[str, Any]:
    return {
        "additional_headers": dict(headers),
        "open_timeout": OPEN_SECONDS if timeout is None else timeout,
        "max_size": MESSAGE_BYTES,
    }


@contextmanager
def _opening() -> Iterator[None]:
    try:
        yield
    except InvalidStatus as error:
        response = error.response
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        raise SocketRefused(response.status_code, kind, bytes(response.body or b"")) from error
    except (OSError, InvalidHandshake, InvalidURI) as error:  # a timeout is an OSError
        raise ClientError("Transport", f"{UNREACHABLE}: {error}") from error


@contextmanager
def _closing() -> Iterator[None]:
    try:
        yield
    except ConnectionClosed as error:
        close = error.rcvd
        raise SocketClosed(close.code if close else 1006, close.reason if close else "") from error
