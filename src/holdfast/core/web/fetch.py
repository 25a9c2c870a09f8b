"""HTTP requests with vetted addresses, redirects followed by hand, and bounded bodies.

Invariants
- Scheme and address are checked before each hop, and only checked addresses are connected to.
- Each hop has its own connection and no cookies; headers given by the caller reach every hop, so a request that
  carries a credential follows no redirects.
- A body is bounded after decompression, by size and by ratio."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast.core.web.errors import FetchFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    import aiohttp
    import yarl

    from holdfast.core.web.address import Address, AddressPolicy

REDIRECTS = 5
URL_CHARACTERS = 8192
RATIO = 100
RATIO_FREE_BYTES = 64 * 1024
"""A body this small may be packed as tightly as it likes."""


class Budget:
    """Seconds of network time. Waiting for a person in between costs nothing."""

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
        """Without a policy it may go anywhere: for addresses that the user configured."""
        self._policy = policy

    @asynccontextmanager
    async def open(
        self,
        url: str,
        *,
        budget: Budget,
        headers: Mapping[str, str] | None = None,
        post: bytes | None = None,
        redirects: int = REDIRECTS,
        exempt: Callable[[str], bool] = lambda url: False,
        crossing: Callable[[str], Awaitable[None]] | None = None,
    ) -> AsyncIterator[Response]:
        """The answer at the end of the redirects, its body not yet read. `crossing` is awaited, with no connection
        held, before a hop to another origin. With no redirects allowed, one is an answer like any other."""
        target = parse_url(url)
        for _ in range(redirects + 1):
            async with self._connected(target, budget, exempt(str(target))) as session:
                answer = await _send(session, target, budget, headers, post)
                async with answer:
                    onward = _onward(target, answer) if redirects else None
                    if onward is None:
                        yield Response(target, answer, budget)
                        return
            if crossing is not None and onward.origin() != target.origin():
                await crossing(str(onward))
            target = onward
        raise FetchFailed("too many redirects")

    @asynccontextmanager
    async def _connected(self, url: yarl.URL, budget: Budget, exempt: bool) -> AsyncIterator[aiohttp.ClientSession]:
        import aiohttp

        resolver = None
        if self._policy is not None:
            async with budget.spend():
                resolver = _resolver(await self._policy.vet(_host(url), url.port or 0, exempt=exempt))
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True)
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            # A proxy would look names up by itself, past the policy.
            trust_env=self._policy is None,
        ) as session:
            yield session


class Response:
    def __init__(self, url: yarl.URL, answer: aiohttp.ClientResponse, budget: Budget) -> None:
        self.url = str(url)
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.headers.items()}
        self._answer = answer
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
        import aiohttp

        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and (len(declared) > 18 or int(declared) > limit):
            raise FetchFailed("too large")
        body = bytearray()
        unpack = _Unpacker(self.headers.get("content-encoding", "identity").strip().lower())
        try:
            async with self._budget.spend():
                async for chunk in self._answer.content.iter_any():
                    body += unpack.feed(chunk, limit + 1 - len(body))
                    if len(body) > limit:
                        raise FetchFailed("too large")
        except (aiohttp.ClientError, OSError, zlib.error) as error:
            raise FetchFailed("the body broke off") from error
        unpack.finish()
        return bytes(body)


def parse_url(url: str) -> yarl.URL:
    """An http(s) address without credentials, parsed by the one parser that also connects."""
    import yarl

    if len(url) > URL_CHARACTERS or any(character <= " " or character in "\\\x7f" for character in url):
        raise FetchFailed("not a valid URL")
    try:
        parsed = yarl.URL(url)
        valid = parsed.scheme in ("http", "https") and bool(parsed.raw_host) and parsed.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise FetchFailed("not a valid http or https URL")
    if parsed.raw_user is not None or parsed.raw_password is not None:
        raise FetchFailed("URLs with credentials are not allowed")
    return parsed.with_fragment(None)


async def _send(
    session: aiohttp.ClientSession,
    url: yarl.URL,
    budget: Budget,
    headers: Mapping[str, str] | None,
    post: bytes | None,
) -> aiohttp.ClientResponse:
    import aiohttp

    try:
        async with budget.spend():
            return await session.request(
                "GET" if post is None else "POST",
                url,
                data=post,
                headers={"Accept-Encoding": "gzip, deflate", **(headers or {})},
                allow_redirects=False,
            )
    except aiohttp.ClientSSLError as error:
        raise FetchFailed("the certificate was not accepted") from error
    except aiohttp.ClientConnectorDNSError as error:
        raise FetchFailed("host not found") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FetchFailed("could not connect") from error


def _onward(url: yarl.URL, answer: aiohttp.ClientResponse) -> yarl.URL | None:
    """Where a redirect leads; None when the answer is none."""
    import yarl

    location = answer.headers.get("location")
    if answer.status not in (301, 302, 303, 307, 308) or location is None:
        return None
    try:
        joined = str(url.join(yarl.URL(location)))
    except ValueError:
        raise FetchFailed("redirected to something that is not a URL") from None
    onward = parse_url(joined)
    if url.scheme == "https" and onward.scheme == "http":
        raise FetchFailed("redirected from https to http")
    return onward


def _host(url: yarl.URL) -> str:
    assert url.raw_host is not None
    return url.raw_host


def _resolver(addresses: tuple[Address, ...]) -> aiohttp.abc.AbstractResolver:
    """Answers every question with the addresses that were vetted."""
    import socket

    from aiohttp.abc import AbstractResolver, ResolveResult

    class Vetted(AbstractResolver):
        async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_UNSPEC) -> list[ResolveResult]:
            return [
                ResolveResult(
                    hostname=host,
                    host=str(address),
                    port=port,
                    family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
                for address in addresses
            ]

        async def close(self) -> None:
            return None

    return Vetted()


class _Unpacker:
    """Undoes the content encoding, never giving more than there is room for."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise FetchFailed("unsupported content encoding")
        self._packed = encoding not in ("", "identity")
        self._deflate = encoding == "deflate"
        self._inflate: zlib._Decompress | None = None
        self._taken = self._given = 0

    def feed(self, data: bytes, room: int) -> bytes:
        if not self._packed:
            return data[:room]
        if self._inflate is None:
            # What is called deflate has a zlib header, or by an old mistake none.
            bare = self._deflate and data[0] & 0x0F != 8
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
        if self._inflate.eof:
            return b""
        self._taken += len(data)
        given = self._inflate.decompress(data, room)
        self._given += len(given)
        if self._given > RATIO_FREE_BYTES and self._given > RATIO * self._taken:
            raise FetchFailed("compressed beyond reason")
        return given

    def finish(self) -> None:
        if self._inflate is not None and not self._inflate.eof:
            raise FetchFailed("the body broke off")
