"""The real transport, on aiohttp. The library is imported at the first request: it is most of a cold start."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.llm.errors import LLMError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import aiohttp

    from holdfast.llm.route.transport import HttpRequest, Timeouts
    from holdfast.llm.route.websocket import Sockets

# aiohttp warns about larger bodies in one piece, and would block the loop writing them.
PIECE = 512 * 1024


class NetworkTransport:
    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._sockets: Sockets | None = None

    async def send(self, request: HttpRequest) -> NetworkResponse:
        import aiohttp
        import yarl

        limits = request.timeouts
        try:
            async with asyncio.timeout(limits.first_byte):
                response = await self.session().post(
                    yarl.URL(request.url, encoded=True),  # as it was signed: `%3A` stays `%3A`
                    data=_body(request),
                    headers={**request.headers, "content-length": str(request.length)},
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect),
                    allow_redirects=False,
                )
        except aiohttp.ConnectionTimeoutError as error:
            raise _late("connect", limits.connect, "no connection to the provider") from error
        except TimeoutError as error:
            raise _late("first-byte", limits.first_byte, "the provider did not answer") from error
        except ValueError as error:  # an address or a header that cannot be sent
            raise LLMError("InvalidRequest", f"the request cannot be sent ({type(error).__name__})") from error
        except (aiohttp.ClientError, OSError) as error:
            raise LLMError(
                "Transport", f"could not reach the provider: {error}", kind="connect", retryable=True
            ) from error
        return NetworkResponse(response, limits)

    def session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
                trust_env=True,
                read_bufsize=256 * 1024,
                skip_auto_headers=("user-agent",),
            )
        return self._session

    @property
    def sockets(self) -> Sockets:
        from holdfast.llm.route.websocket import Sockets

        if self._sockets is None:
            self._sockets = Sockets(self.session)
        return self._sockets

    async def close(self) -> None:
        if self._sockets is not None:
            await self._sockets.close()
        if self._session is not None:
            await self._session.close()
            self._session = None


class NetworkResponse:
    def __init__(self, response: aiohttp.ClientResponse, limits: Timeouts) -> None:
        self._response = response
        self._limits = limits
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    async def chunks(self) -> AsyncIterator[bytes]:
        import aiohttp

        content = self._response.content
        limit, name, what = self._limits.first_byte, "first-byte", "the provider sent no body"
        try:
            while True:
                async with asyncio.timeout(limit):
                    chunk = await content.readany()
                limit, name, what = self._limits.idle, "inactivity", "the provider fell silent"
                if not chunk:
                    return
                yield chunk
        except TimeoutError as error:
            raise _late(name, limit, what) from error
        except (aiohttp.ClientError, OSError) as error:
            raise LLMError("Transport", f"the provider's stream broke off: {error}", kind="read") from error

    async def close(self) -> None:
        self._response.close()


def _body(request: HttpRequest) -> bytes | AsyncIterator[bytes]:
    return b"".join(request.body) if request.length <= PIECE else _pieces(request.body)


async def _pieces(body: Sequence[bytes]) -> AsyncIterator[bytes]:
    """Made anew for every attempt, so that a retry can send the same body again."""
    for chunk in body:
        for start in range(0, len(chunk), PIECE):
            yield chunk[start : start + PIECE]


def _late(name: str, seconds: float | None, what: str) -> LLMError:
    return LLMError(
        "Transport", f"{what} within {seconds or 0:g} s ({name} limit)", kind="timeout", retryable=name == "connect"
    )
