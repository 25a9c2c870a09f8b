"""The network transport, on httpx2. A convenience: any object with the same two methods will do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

from holdfast.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from holdfast.client.transport import Request


class HttpTransport:
    def __init__(
        self,
        base_url: str,
        *,
        auth: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        connect_timeout: float = 10.0,
    ) -> None:
        timeout = httpx2.Timeout(None, connect=connect_timeout)
        try:
            self._client = httpx2.AsyncClient(base_url=base_url, auth=auth, headers=headers, timeout=timeout)
        except httpx2.InvalidURL as error:
            raise ClientError("Transport", f"{base_url} is no address of a server: {error}") from error

    async def send(self, request: Request) -> HttpResponse:
        timeout = httpx2.USE_CLIENT_DEFAULT if request.timeout is None else httpx2.Timeout(request.timeout)
        built = self._client.build_request(
            request.method, request.target, headers=dict(request.headers), content=request.body, timeout=timeout
        )
        try:
            return HttpResponse(await self._client.send(built, stream=True))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ClientError("Transport", f"cannot reach the server: {error}") from error

    async def close(self) -> None:
        await self._client.aclose()


class HttpResponse:
    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.content_type = response.headers.get("content-type", "").partition(";")[0].strip()

    async def read(self) -> bytes:
        try:
            return await self._response.aread()
        except httpx2.HTTPError as error:
            raise ClientError("Transport", f"the connection broke: {error}") from error

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_raw():
                yield chunk
        except httpx2.HTTPError as error:
            raise ClientError("Transport", f"the stream broke: {error}") from error

    async def close(self) -> None:
        await self._response.aclose()
