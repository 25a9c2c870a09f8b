"""The network transports, on httpx2. A convenience: any object with the same two methods will do."""

from __future__ import annotations

from base64 import b64encode
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, socket
from threading import Lock, get_ident
from typing import TYPE_CHECKING

import httpx2

from holdfast.client.errors import ClientError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from holdfast.client.transport import Request
    from holdfast.client.websocket import NetworkSocket, SyncNetworkSocket

TIMEOUT = httpx2.Timeout(None, connect=10.0)
DIRECT = ("all://localhost", "all://127.0.0.1", "all://[::1]")
"""This machine is reached without a proxy, whatever the environment says: it would get to see the password."""
NO_ADDRESS = "{url} is no address of a server"
NOT_OF_AN_UPGRADE = ("host", "accept", "accept-encoding", "connection", "user-agent")
UNREACHABLE = "cannot reach the server"
BROKEN = "the connection broke"


class Target(Frozen):
    """Where a server is, and with what it lets us in."""

    url: str
    auth: tuple[str, str] | None = None
    socket: str | None = None
    """Where to connect, whatever the URL says."""

    def __repr__(self) -> str:
        return f"Target({self.url})"  # it may hold a password


def _elsewhere(known: Target, locate: Callable[[], Target] | None) -> Target | None:
    """A new socket of the server. Without one nothing changes: its password is for a socket, never for a port."""
    found = locate() if locate is not None else None
    return found if found is not None and found.socket is not None and found != known else None


class HttpTransport:
    def __init__(
        self,
        base_url: str,
        *,
        auth: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        socket: str | None = None,
        locate: Callable[[], Target] | None = None,
    ) -> None:
        """`socket` is the path of a Unix socket to connect to instead of the address in the URL. `locate` finds the
        server again: one that was started anew has another socket, and mostly another password."""
        self._target = Target(base_url, auth, socket)
        self._headers = headers
        self._locate = locate
        self._client = self._opened()

    async def send(self, request: Request) -> HttpResponse:
        with _told(UNREACHABLE):
            client = self._client
            try:
                return HttpResponse(await client.send(_built(client, request), stream=True))
            except httpx2.ConnectError:
                if self._client is client and not await self._moved():  # another request may have found it already
                    raise
                return HttpResponse(await self._client.send(_built(self._client, request), stream=True))

    async def open_socket(self, request: Request) -> NetworkSocket:
        from holdfast.client.websocket import open_socket

        url, headers, direct = _upgrade(_built(self._client, request), self._target.auth)
        return await open_socket(url, headers, request.timeout, direct=direct, local=self._target.socket)

    async def close(self) -> None:
        await self._client.aclose()

    async def _moved(self) -> bool:
        if (found := _elsewhere(self._target, self._locate)) is None:
            return False
        former, self._target = self._client, found
        self._client = self._opened()
        await former.aclose()
        return True

    def _opened(self) -> httpx2.AsyncClient:
        to = self._target
        with _told(NO_ADDRESS.format(url=to.url)):
            return httpx2.AsyncClient(
                base_url=to.url,
                auth=to.auth,
                headers=self._headers,
                timeout=TIMEOUT,
                transport=httpx2.AsyncHTTPTransport(uds=to.socket) if to.socket is not None else None,
                mounts=dict.fromkeys(DIRECT) if to.socket is None else None,
            )


class HttpResponse:
    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.content_type = _content_type(response)

    async def read(self) -> bytes:
        with _told(BROKEN):
            return await self._response.aread()

    async def chunks(self) -> AsyncIterator[bytes]:
        with _told(BROKEN):
            async for chunk in self._response.aiter_bytes():
                yield chunk

    async def close(self) -> None:
        await self._response.aclose()


class SyncHttpTransport:
    def __init__(
        self,
        base_url: str,
        *,
        auth: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        socket: str | None = None,
        locate: Callable[[], Target] | None = None,
    ) -> None:
        """`socket` is the path of a Unix socket to connect to instead of the address in the URL. `locate` finds the
        server again: one that was started anew has another socket, and mostly another password."""
        self._target = Target(base_url, auth, socket)
        self._headers = headers
        self._locate = locate
        self._moving = Lock()
        self._former: list[httpx2.Client] = []
        """Of servers that are gone. Another thread may be using one, so they are closed at the end."""
        self._client = self._opened()

    def send(self, request: Request) -> SyncHttpResponse:
        with _told(UNREACHABLE):
            client = self._client
            try:
                return SyncHttpResponse(client.send(_built(client, request), stream=True))
            except httpx2.ConnectError:
                with self._moving:
                    if self._client is client and not self._moved():  # another thread may have found it already
                        raise
                return SyncHttpResponse(self._client.send(_built(self._client, request), stream=True))

    def open_socket(self, request: Request) -> SyncNetworkSocket:
        from holdfast.client.websocket import open_socket_sync

        url, headers, direct = _upgrade(_built(self._client, request), self._target.auth)
        return open_socket_sync(url, headers, request.timeout, direct=direct, local=self._target.socket)

    def close(self) -> None:
        for client in (*self._former, self._client):
            client.close()

    def _moved(self) -> bool:
        if (found := _elsewhere(self._target, self._locate)) is None:
            return False
        self._former.append(self._client)
        self._target = found
        self._client = self._opened()
        return True

    def _opened(self) -> httpx2.Client:
        to = self._target
        with _told(NO_ADDRESS.format(url=to.url)):
            return httpx2.Client(
                base_url=to.url,
                auth=to.auth,
                headers=self._headers,
                timeout=TIMEOUT,
                transport=httpx2.HTTPTransport(uds=to.socket) if to.socket is not None else None,
                mounts=dict.fromkeys(DIRECT) if to.socket is None else None,
            )


class SyncHttpResponse:
    """Another thread may close it while one is waiting for a chunk."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._waiting: int | None = None
        self.status = response.status_code
        self.content_type = _content_type(response)

    def read(self) -> bytes:
        with _told(BROKEN):
            return self._response.read()

    def chunks(self) -> Iterator[bytes]:
        chunks = self._response.iter_bytes()
        while True:
            self._waiting = get_ident()
            try:
                with _told(BROKEN):
                    chunk = next(chunks, None)
            finally:
                self._waiting = None
            if chunk is None:
                return
            yield chunk

    def close(self) -> None:
        if self._waiting in (None, get_ident()):
            self._response.close()
        elif not self._response.is_closed:
            # Closing a socket wakes nobody who waits for it, and its number may be another's by then.
            self._shut_down()

    def _shut_down(self) -> None:
        connection = self._response.extensions["network_stream"].get_extra_info("socket")
        with suppress(OSError):
            socket.shutdown(connection, SHUT_RDWR)


def _built(client: httpx2.Client | httpx2.AsyncClient, request: Request) -> httpx2.Request:
    timeout = httpx2.USE_CLIENT_DEFAULT if request.timeout is None else httpx2.Timeout(request.timeout)
    return client.build_request(
        request.method, request.target, headers=dict(request.headers), content=request.body, timeout=timeout
    )


def _upgrade(request: httpx2.Request, auth: tuple[str, str] | None) -> tuple[str, dict[str, str], bool]:
    """Where a WebSocket is asked for, with which headers, and whether that is this machine."""
    headers = {name: value for name, value in request.headers.items() if name not in NOT_OF_AN_UPGRADE}
    if auth is not None and "authorization" not in headers:
        headers["authorization"] = f"Basic {b64encode(':'.join(auth).encode()).decode()}"
    direct = request.url.host in ("localhost", "127.0.0.1", "::1")
    return f"ws{str(request.url).removeprefix('http')}", headers, direct


def _content_type(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip()


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        raise ClientError("Transport", f"{what}: {error}") from error
