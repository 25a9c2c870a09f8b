"""HTTP requests with checked addresses, redirects and bounded bodies.

Invariants
- Scheme and address are checked before each hop, and only checked addresses are connected to. A redirect never leads
  from https to http, nor from what a user configured to a nearer host.
- Each hop has its own connection and no cookies; headers given by the caller reach every hop, so a request that
  carries a credential follows no redirects.
- A body is bounded after decompression, by size and by ratio."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast.core.web.errors import FetchFailed
from holdfast.core.web.near_addresses import NearAddresses
from holdfast.core.web.url import join_url, parse_url
from holdfast.http.errors import InflationLimit, UnsupportedEncoding
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from holdfast.core.web.address import Address, AddressPolicy
    from holdfast.core.web.url import PageUrl
    from holdfast.http.client import HttpClient
    from holdfast.http.connection import Response as HttpResponse

DEFAULT_HEADERS = {"user-agent": f"holdfast/{__version__}", "accept": "*/*", "accept-encoding": "gzip, deflate"}
REDIRECTS = 5
REDIRECT_STATUSES = (301, 302, 303, 307, 308)
RATIO = 100
RATIO_FREE_BYTES = 64 * 1024
"""Below this size the ratio of compression does not matter."""


class Budget:
    """Seconds of network time. Time outside `spend` does not count, such as waiting for an approval."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    @asynccontextmanager
    async def spend(self) -> AsyncIterator[None]:
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            async with asyncio.timeout(self._left):
                yield
        except TimeoutError:
            raise FetchFailed("timed out") from None
        finally:
            self._left -= clock() - started


class Fetcher:
    def __init__(self, policy: AddressPolicy | None = None) -> None:
        """Without a policy the URLs are those that a user configured: their hosts may be anywhere, redirects follow the
        rule of `NearAddresses`, and the proxies of the environment are used. With one there is no proxy, because it
        would look names up by itself."""
        self._policy = policy
        self._client: HttpClient | None = None

    @asynccontextmanager
    async def open(
        self,
        url: str,
        *,
        budget: Budget,
        configured: str | None = None,
        headers: Mapping[str, str] | None = None,
        post: bytes | None = None,
        redirects: int = REDIRECTS,
        exempt: Callable[[str], bool] = lambda url: False,
        crossing: Callable[[str], Awaitable[None]] | None = None,
    ) -> AsyncIterator[Response]:
        """The response at the end of the redirects, its body not yet read. `configured` is the URL that a
        user configured, if this is not the first hop from there. `exempt` lifts the address policy for a URL.
        `crossing` is awaited, with no connection open, before a redirect to another origin. With `redirects=0` a
        redirect is a response like any other."""
        use_proxy = self._policy is None
        target = parse_url(url, use_proxy=use_proxy)
        near = NearAddresses(configured or url)
        for _ in range(redirects + 1):
            response = await self._send(target, near, budget, headers, post, exempt=exempt(target.text))
            try:
                location = response.headers.get("location")
                if not redirects or response.status not in REDIRECT_STATUSES or location is None:
                    yield Response(target, response, budget)
                    return
            finally:
                response.close()
            onward = join_url(target, location, use_proxy=use_proxy)
            if crossing is not None and onward.origin != target.origin:
                await crossing(onward.text)
            target = onward
        raise FetchFailed("too many redirects")

    async def _send(
        self,
        target: PageUrl,
        near: NearAddresses,
        budget: Budget,
        headers: Mapping[str, str] | None,
        post: bytes | None,
        *,
        exempt: bool,
    ) -> HttpResponse:
        from holdfast.http.client import HttpClient
        from holdfast.http.request import Request

        if self._client is None:
            self._client = HttpClient()
        given = {**DEFAULT_HEADERS, **{name.lower(): value for name, value in (headers or {}).items()}}
        request = Request("GET" if post is None else "POST", target.url, given, (post,) if post else ())
        origin = target.url.origin
        addresses: Sequence[Address] | None = None
        try:
            async with budget.spend():
                if self._policy is not None:
                    addresses = await self._policy.vet(origin.host, origin.port, exempt=exempt)
                elif not near.is_configured(origin.host):
                    addresses = await near.addresses(origin.host, origin.port, proxied=origin.proxy is not None)
                return await self._client.send(request, addresses=addresses)
        except ssl.SSLError as error:
            raise FetchFailed("the certificate was not accepted") from error
        except socket.gaierror as error:
            raise FetchFailed("host not found") from error
        except (OSError, ValueError) as error:
            raise FetchFailed("could not connect") from error


class Response:
    def __init__(self, url: PageUrl, response: HttpResponse, budget: Budget) -> None:
        self.url = url.text
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._budget = budget

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def mime(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        _, _, parameters = self.headers.get("content-type", "").partition(";")
        for parameter in parameters.split(";"):
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "charset":
                return value.strip().strip("\"'")
        return None

    async def read(self, limit: int) -> bytes:
        """The whole body, decompressed. Raises FetchFailed if it has more than `limit` bytes."""
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and (len(declared) > 18 or int(declared) > limit):
            raise FetchFailed("too large")
        try:
            async with self._budget.spend():
                return await self._read(limit)
        except InflationLimit as error:
            raise FetchFailed("compressed beyond reason") from error
        except UnsupportedEncoding as error:
            raise FetchFailed("unsupported content encoding") from error
        except OSError as error:
            raise FetchFailed("the body broke off") from error

    async def _read(self, limit: int) -> bytes:
        from holdfast.http.inflate import inflater

        inflate = inflater(self.headers.get("content-encoding", ""), ratio=RATIO, floor=RATIO_FREE_BYTES)
        body = bytearray()
        while True:
            data = await self._response.read()
            for piece in (data,) if inflate is None else inflate.pieces(data):
                body += piece
                if len(body) > limit:
                    raise FetchFailed("too large")
            if not data:
                return bytes(body)
