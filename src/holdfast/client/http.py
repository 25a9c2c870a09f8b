"""The network transports, asynchronous and blocking. Any object with the same two methods can take their place."""

from __future__ import annotations

from base64 import b64encode
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, TypedDict, Unpack
from urllib.parse import urlsplit

from holdfast.client.errors import ClientError
from holdfast.http.errors import HttpError
from holdfast.http.inflate import inflater
from holdfast.http.request import Request as HttpRequest
from holdfast.http.url import parse
from holdfast.schema.frozen import Frozen
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from holdfast.client.transport import Request
    from holdfast.client.websocket import NetworkSocket, SyncNetworkSocket
    from holdfast.http.blocking import BlockingResponse
    from holdfast.http.connection import Response
    from holdfast.http.inflate import Inflater

CONNECT_SECONDS = 10.0
KEEP_SECONDS = 4.0
"""Shorter than a server keeps an idle connection: a request is not sent twice, so a closed one would fail."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""This machine is reached without a proxy, whatever the environment says: it would get to see the password."""
HEADERS = {"user-agent": f"holdfast/{__version__}", "accept": "*/*", "accept-encoding": "gzip, deflate"}
NO_ADDRESS = "{url} is not the URL of a server"
UNREACHABLE = "cannot reach the server"
BROKEN = "the connection broke"
ANY_RATIO = 2000
"""More than deflate can reach: what the server sends is not limited."""


class Target(Frozen):
    """Where a server is, and the credential for it."""

    url: str
    auth: tuple[str, str] | None = None
    socket: str | None = None
    """Where to connect, whatever the URL says."""

    def __repr__(self) -> str:
        return f"Target({self.url})"  # it may hold a password

    @property
    def is_local(self) -> bool:
        return urlsplit(self.url).hostname in LOOPBACK

    def headers(self, *layers: Mapping[str, str] | None) -> dict[str, str]:
        """Later layers replace earlier ones, and the credential."""
        auth = {"authorization": f"Basic {b64encode(':'.join(self.auth).encode()).decode()}"} if self.auth else {}
        return auth | {name.lower(): value for layer in layers for name, value in (layer or {}).items()}

    def request(self, asked: Request, headers: Mapping[str, str] | None) -> HttpRequest:
        return HttpRequest(
            asked.method,
            parse(self.url.rstrip("/") + asked.target, use_proxy=not self.is_local, socket=self.socket),
            self.headers(HEADERS, headers, asked.headers),
            (asked.body,) if asked.body else (),
        )

    def upgrade(self, asked: Request, headers: Mapping[str, str] | None) -> tuple[str, dict[str, str]]:
        """URL and headers of a request for a WebSocket."""
        return f"ws{self.url.rstrip('/').removeprefix('http')}{asked.target}", self.headers(headers, asked.headers)


class TransportOptions(TypedDict, total=False):
    auth: tuple[str, str] | None
    headers: Mapping[str, str] | None
    socket: str | None
    """Path of a Unix socket to connect to instead of the address in the URL."""
    locate: Callable[[], Target] | None
    """Finds the server again: after a restart it has another socket, and mostly another password."""


class _Transport:
    def __init__(self, base_url: str, **options: Unpack[TransportOptions]) -> None:
        self._target = Target(base_url, options.get("auth"), options.get("socket"))
        self._headers = options.get("headers")
        self._locate = options.get("locate")
        self._locating = Lock()
        with _told(NO_ADDRESS.format(url=base_url)):
            parse(base_url)

    def _moved(self, known: Target, error: OSError) -> bool:
        """Whether no connection could be made and the server is elsewhere by now. Only a new socket counts: the
        password is for a socket, never for a port."""
        if isinstance(error, HttpError | TimeoutError):
            return False  # there was a connection, or may have been one
        with self._locating:
            if self._target is not known:
                return True  # another request has found it
            found = self._locate() if self._locate is not None else None
            if found is None or found.socket is None or found == known:
                return False
            self._target = found
            return True


class HttpTransport(_Transport):
    def __init__(self, base_url: str, **options: Unpack[TransportOptions]) -> None:
        from holdfast.http.client import HttpClient

        super().__init__(base_url, **options)
        self._client = HttpClient(keep_seconds=KEEP_SECONDS)

    async def send(self, request: Request) -> HttpResponse:
        with _told(UNREACHABLE):
            target = self._target
            try:
                return await self._send(target, request)
            except OSError as error:
                if not self._moved(target, error):
                    raise
            return await self._send(self._target, request)

    async def open_socket(self, request: Request) -> NetworkSocket:
        from holdfast.client.websocket import open_socket

        to = self._target
        url, headers = to.upgrade(request, self._headers)
        return await open_socket(url, headers, request.timeout, direct=to.is_local, local=to.socket)

    async def close(self) -> None:
        await self._client.close()

    async def _send(self, target: Target, asked: Request) -> HttpResponse:
        connect_seconds = CONNECT_SECONDS if asked.timeout is None else asked.timeout
        response = await self._client.send(
            target.request(asked, self._headers), connect_seconds=connect_seconds, response_seconds=asked.timeout
        )
        return HttpResponse(response, asked.timeout)


class HttpResponse:
    def __init__(self, response: Response, timeout: float | None) -> None:
        self._response = response
        self._timeout = timeout
        self.status = response.status
        self.content_type = _content_type(response.headers)

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        with _told(BROKEN):
            inflate = _inflater(self._response.headers)
            while True:
                data = await self._response.read(self._timeout)
                for chunk in (data,) if inflate is None else inflate.pieces(data):
                    yield chunk
                if not data:
                    return

    async def close(self) -> None:
        self._response.close()


class SyncHttpTransport(_Transport):
    def __init__(self, base_url: str, **options: Unpack[TransportOptions]) -> None:
        from holdfast.http.blocking import BlockingClient

        super().__init__(base_url, **options)
        self._client = BlockingClient(keep_seconds=KEEP_SECONDS)

    def send(self, request: Request) -> SyncHttpResponse:
        with _told(UNREACHABLE):
            target = self._target
            try:
                return self._send(target, request)
            except OSError as error:
                if not self._moved(target, error):
                    raise
            return self._send(self._target, request)

    def open_socket(self, request: Request) -> SyncNetworkSocket:
        from holdfast.client.websocket import open_socket_sync

        to = self._target
        url, headers = to.upgrade(request, self._headers)
        return open_socket_sync(url, headers, request.timeout, direct=to.is_local, local=to.socket)

    def close(self) -> None:
        self._client.close()

    def _send(self, target: Target, asked: Request) -> SyncHttpResponse:
        connect_seconds = CONNECT_SECONDS if asked.timeout is None else asked.timeout
        response = self._client.send(
            target.request(asked, self._headers), connect_seconds=connect_seconds, read_seconds=asked.timeout
        )
        return SyncHttpResponse(response)


class SyncHttpResponse:
    """Another thread may close it while one is waiting for a chunk."""

    def __init__(self, response: BlockingResponse) -> None:
        self._response = response
        self.status = response.status
        self.content_type = _content_type(response.headers)

    def read(self) -> bytes:
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        with _told(BROKEN):
            inflate = _inflater(self._response.headers)
            while True:
                data = self._response.read()
                yield from (data,) if inflate is None else inflate.pieces(data)
                if not data:
                    return

    def close(self) -> None:
        self._response.close()


def _content_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip()


def _inflater(headers: Mapping[str, str]) -> Inflater | None:
    return inflater(headers.get("content-encoding", ""), ratio=ANY_RATIO, floor=0)


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise ClientError("Transport", f"{what}: {error}") from error
