"""The network transports, on httpx2. A convenience: any object with the same two methods will do."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx2

from holdfast.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from holdfast.client.transport import Request

CONNECT_SECONDS = 10.0
NO_ADDRESS = "{url} is no address of a server"
UNREACHABLE = "cannot reach the server"
BROKEN = "the connection broke"


class HttpTransport:
    def __init__(
        self, base_url: str, *, auth: tuple[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        with _told(NO_ADDRESS.format(url=base_url)):
            self._client = httpx2.AsyncClient(
                base_url=base_url, auth=auth, headers=headers, timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS)
            )

    async def send(self, request: Request) -> HttpResponse:
        with _told(UNREACHABLE):
            return HttpResponse(await self._client.send(_built(self._client, request), stream=True))

    async def close(self) -> None:
        await self._client.aclose()


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
            async for chunk in self._response.aiter_raw():
                yield chunk

    async def close(self) -> None:
        await self._response.aclose()


class SyncHttpTransport:
    def __init__(
        self, base_url: str, *, auth: tuple[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        with _told(NO_ADDRESS.format(url=base_url)):
            self._client = httpx2.Client(
                base_url=base_url, auth=auth, headers=headers, timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS)
            )

    def send(self, request: Request) -> SyncHttpResponse:
        with _told(UNREACHABLE):
            return SyncHttpResponse(self._client.send(_built(self._client, request), stream=True))

    def close(self) -> None:
        self._client.close()


class SyncHttpResponse:
    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.content_type = _content_type(response)

    def read(self) -> bytes:
        with _told(BROKEN):
            return self._response.read()

    def chunks(self) -> Iterator[bytes]:
        with _told(BROKEN):
            yield from self._response.iter_raw()

    def close(self) -> None:
        self._response.close()


def _built(client: httpx2.Client | httpx2.AsyncClient, request: Request) -> httpx2.Request:
    timeout = httpx2.USE_CLIENT_DEFAULT if request.timeout is None else httpx2.Timeout(request.timeout)
    return client.build_request(
        request.method, request.target, headers=dict(request.headers), content=request.body, timeout=timeout
    )


def _content_type(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip()


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ClientError("Transport", f"{what}: {error}") from error
