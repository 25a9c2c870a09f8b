"""Requests for metadata and to the endpoints of an authorization server.

Invariants
- Every address is checked before it is contacted, that of a redirect too, and only checked addresses are connected to.
- A redirect leads to the same origin and is followed for GET only: what is posted may hold a secret.
- A body has at most BODY_BYTES, decompressed, and an exchange takes at most SECONDS."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec

from holdfast.http.client import HttpClient
from holdfast.http.errors import InflationLimit, UnsupportedEncoding
from holdfast.http.inflate import inflater
from holdfast.http.request import Request
from holdfast.http.url import parse
from holdfast.mcp.errors import shown
from holdfast.mcp.oauth.errors import OAuthUnreachable, ResponseRefused, oauth_failure
from holdfast.mcp.oauth.url import check_url, origin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Address, IPv6Address

    from holdfast.http.connection import Response

BODY_BYTES = 256 * 1024
RATIO = 100
RATIO_FREE_BYTES = 64 * 1024
SECONDS = 20.0
REDIRECTS = 3
REDIRECT_STATUSES = (301, 302, 303, 307, 308)

T = TypeVar("T")


class AddressCheck(Protocol):
    """Decides which hosts may be contacted."""

    async def addresses(self, host: str, port: int, *, proxied: bool) -> Sequence[IPv4Address | IPv6Address] | None:
        """The addresses to connect to; None leaves the lookup to the connection. `proxied`: a proxy looks the name up.
        Raises AddressRefused and OAuthUnreachable."""


class _Failure(msgspec.Struct, frozen=True):
    error: str | None = None
    error_description: str | None = None


class Reply(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def decode(self, type: type[T], what: str) -> T:
        """The JSON of the body. Raises ResponseRefused. `what` names it in the message."""
        try:
            return msgspec.json.decode(self.body, type=type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = shown(str(error)) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
            raise ResponseRefused(f"The {what} cannot be read: {reason}") from None

    def failure(self) -> tuple[str, str]:
        """The OAuth error code of the body, which may be empty, and a text for a message."""
        try:
            found = msgspec.json.decode(self.body, type=_Failure)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = _Failure()
        code = found.error or ""
        return code, oauth_failure(code, found.error_description or "")


class OAuthRequests:
    def __init__(self, check: AddressCheck, *, seconds: float = SECONDS) -> None:
        self._check = check
        self._seconds = seconds
        self._client = HttpClient()

    async def close(self) -> None:
        await self._client.close()

    async def get(self, url: str) -> Reply:
        for _ in range(REDIRECTS + 1):
            reply = await self._send("GET", url, {"accept": "application/json"})
            location = reply.headers.get("location")
            if reply.status not in REDIRECT_STATUSES or location is None:
                return reply
            url = _redirected(url, location)
        raise ResponseRefused(f"{origin(url)} redirects too often")

    async def post_form(self, url: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Reply:
        return await self._post(url, urlencode(fields).encode(), "application/x-www-form-urlencoded", headers)

    async def post_json(self, url: str, value: Any, headers: Mapping[str, str] | None = None) -> Reply:
        return await self._post(url, msgspec.json.encode(value), "application/json", headers)

    async def head_of_post(self, url: str, value: Any, headers: Mapping[str, str]) -> Reply:
        """Status and headers of the answer, without its body: it may be a stream."""
        given = {**headers, "content-type": "application/json"}
        return await self._send("POST", url, given, msgspec.json.encode(value), read=False)

    async def _post(self, url: str, body: bytes, mime: str, headers: Mapping[str, str] | None) -> Reply:
        given = {"accept": "application/json", "content-type": mime, **(headers or {})}
        reply = await self._send("POST", url, given, body)
        if reply.status in REDIRECT_STATUSES:
            raise ResponseRefused(f"{origin(url)} redirects a request that may hold a secret")
        return reply

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None, *, read: bool = True
    ) -> Reply:
        check_url(url, "address")
        try:
            async with asyncio.timeout(self._seconds):
                target = parse(url)
                where = target.origin
                addresses = await self._check.addresses(where.host, where.port, proxied=where.proxy is not None)
                request = Request(method, target, {"accept-encoding": "gzip", **headers}, (body,) if body else ())
                response = await self._client.send(request, addresses=addresses)
                try:
                    content = await _read(response) if read else b""
                finally:
                    response.close()
        except TimeoutError:
            raise OAuthUnreachable(f"{origin(url)} did not answer in time") from None
        except (InflationLimit, UnsupportedEncoding) as error:
            raise ResponseRefused(f"The answer of {origin(url)} cannot be read: {error}") from None
        except (OSError, ValueError) as error:
            raise OAuthUnreachable(f"{origin(url)} cannot be reached ({type(error).__name__})") from None
        return Reply(response.status, response.headers, content)


async def _read(response: Response) -> bytes:
    inflate = inflater(response.headers.get("content-encoding", ""), ratio=RATIO, floor=RATIO_FREE_BYTES)
    body = bytearray()
    while True:
        data = await response.read()
        for piece in (data,) if inflate is None else inflate.pieces(data):
            body += piece
            if len(body) > BODY_BYTES:
                raise ResponseRefused(f"An answer has more than {BODY_BYTES} bytes")
        if not data:
            return bytes(body)


def _redirected(url: str, location: str) -> str:
    try:
        onward = urljoin(url, location)
        elsewhere = urlsplit(onward).scheme not in ("http", "https") or origin(onward) != origin(url)
    except ValueError:
        elsewhere = True
    if elsewhere:
        raise ResponseRefused(f"{origin(url)} redirects to another host")
    return onward
