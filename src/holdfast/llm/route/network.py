"""The real transport, on aiohttp. The library is imported at the first request: it is most of a cold start."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.llm.errors import LLMError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

    from holdfast.llm.route.transport import HttpRequest, Timeouts

_INLINE_BODY = 512 * 1024


class NetworkTransport:
    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: HttpRequest) -> NetworkResponse:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
                trust_env=True,
                read_bufsize=256 * 1024,
                skip_auto_headers=("user-agent",),
            )
        limits = request.timeouts
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=limits.connect)
        try:
            async with asyncio.timeout(limits.first_byte):
                response = await self._session.post(
                    request.url,
                    data=_body(request.body),
                    headers={**request.headers, "content-length": str(len(request.body))},
                    timeout=timeout,
                    allow_redirects=False,
                )
        except TimeoutError as error:
            raise LLMError("Transport", _late(limits)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise LLMError("Transport", f"could not reach the provider: {error}") from error
        return NetworkResponse(response, limits)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class NetworkResponse:
    def __init__(self, response: aiohttp.ClientResponse, limits: Timeouts) -> None:
        self._response = response
        self._limits = limits
        self.status = response.status
        self.content_type = response.content_type

    async def chunks(self) -> AsyncIterator[bytes]:
        import aiohttp

        content = self._response.content
        limit = self._limits.first_byte
        try:
            while True:
                async with asyncio.timeout(limit):
                    chunk = await content.readany()
                limit = self._limits.idle
                if not chunk:
                    return
                yield chunk
        except TimeoutError as error:
            raise LLMError("Transport", f"the provider was silent for {limit:g} s (inactivity limit)") from error
        except (aiohttp.ClientError, OSError) as error:
            raise LLMError("Transport", f"the provider's stream broke off: {error}") from error

    async def close(self) -> None:
        self._response.close()


async def _chunked(body: bytes) -> AsyncIterator[bytes]:
    view = memoryview(body)
    for start in range(0, len(view), _INLINE_BODY):
        yield bytes(view[start : start + _INLINE_BODY])


def _body(body: bytes) -> bytes | AsyncIterator[bytes]:
    return body if len(body) <= _INLINE_BODY else _chunked(body)


def _late(limits: Timeouts) -> str:
    if limits.first_byte is not None:
        return f"the provider did not answer within {limits.first_byte:g} s (first-byte limit)"
    return f"no connection to the provider within {limits.connect or 0:g} s (connect limit)"
