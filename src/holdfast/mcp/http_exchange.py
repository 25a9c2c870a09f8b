"""One HTTP request to an MCP server: authorized, redirected only within its origin, its failures as McpError."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from holdfast.http.client import HttpClient
from holdfast.http.errors import HttpError, NoResponse, UndecodableBody
from holdfast.http.inflate import inflater
from holdfast.http.request import Request
from holdfast.http.url import Url, parse
from holdfast.mcp.authorization import NoAuthorization
from holdfast.mcp.errors import (
    Challenge,
    HttpRefused,
    McpError,
    NeedsAuthorization,
    ProtocolError,
    ServerClosed,
    TooLarge,
    Unreachable,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.http.connection import Response
    from holdfast.http.inflate import Inflater
    from holdfast.mcp.authorization import Authorizer

KEEP_SECONDS = 4.0
"""Shorter than servers usually keep an idle connection, so that a call is seldom sent into a closing one."""
CONNECT_SECONDS = 30.0
REDIRECTS = 3
CHALLENGES = 2
"""How often one request is sent again after a challenge: once for a token, once for more scope."""
REFUSAL_BYTES = 64 * 1024
INFLATE_RATIO = 2000
"""More than is possible: it is decompressed in small pieces, and what they add up to is limited."""


class HttpExchange:
    """`headers` are configured ones and are sent with every request."""

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, authorizer: Authorizer | None = None
    ) -> None:
        self.url = url
        self._target = _parsed(url)
        self._headers = {name.lower(): value for name, value in (headers or {}).items()}
        self._authorizer = authorizer or NoAuthorization()
        self._client = HttpClient(keep_seconds=KEEP_SECONDS)

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        url: str | None = None,
        repeatable: bool = True,
    ) -> Response:
        """The answer once its head has arrived, whatever its status is except for 401, for 403 with a challenge and for
        redirects. Raises McpError."""
        target = self._target if url is None else _parsed(url)
        if not _same_place(target, self._target):
            raise ProtocolError(f"The MCP server leads to another host: {shown(str(target))}")
        challenges = redirects = 0
        while True:
            sent = {**self._headers, **headers}
            await self._authorizer.authorize(sent)
            response = await self._exchange(Request(method, target, sent, (body,) if body else ()), repeatable)
            if response.status == 401 or (response.status == 403 and "www-authenticate" in response.headers):
                challenge = Challenge(self.url, response.status, dict(response.headers))
                response.release()
                if challenges < CHALLENGES and await self._authorizer.on_challenge(challenge, sent):
                    challenges += 1
                    continue
                raise NeedsAuthorization(challenge)
            if response.status not in (301, 302, 303, 307, 308):
                return response
            response.release()
            redirects += 1
            target = self._redirected(method, target, response, redirects)

    async def close(self) -> None:
        await self._client.close()

    async def _exchange(self, request: Request, repeatable: bool) -> Response:
        for attempt in (1, 2):
            try:
                return await self._client.send(request, connect_seconds=CONNECT_SECONDS)
            except NoResponse as error:
                if not repeatable or attempt == 2:
                    raise ServerClosed(f"The MCP server closed the connection: {error}") from error
            except (HttpError, TimeoutError, OSError) as error:
                kind = ServerClosed if isinstance(error, HttpError) else Unreachable
                raise kind(f"The MCP server at {request.url.origin.place} cannot be reached: {_why(error)}") from error
            except ValueError as error:
                raise ProtocolError(f"The request to the MCP server is not possible: {error}") from error
        raise AssertionError

    def _redirected(self, method: str, target: Url, response: Response, count: int) -> Url:
        location = response.headers.get("location", "").strip()
        try:
            new = parse(urljoin(str(target), location))
        except ValueError as error:
            raise ProtocolError("The MCP server redirects to an address that is not valid") from error
        if not location:
            raise ProtocolError("The MCP server redirects to nowhere")
        keeps_method = method == "GET" or response.status in (307, 308)
        if count > REDIRECTS or not keeps_method or not _same_place(new, target):
            raise ProtocolError(
                f"The MCP server redirects to {shown(str(new))}, which is not followed; "
                "configure that address if it is the right one"
            )
        return new


def _parsed(url: str) -> Url:
    try:
        return parse(url)
    except ValueError as error:
        raise ProtocolError(f"This is not the address of an MCP server: {error}") from error  # it may hold a password


def _same_place(new: Url, old: Url) -> bool:
    """The same origin, or from http to https on the same host with default ports."""
    there, here = new.origin, old.origin
    if (there.scheme, there.host, there.port) == (here.scheme, here.host, here.port):
        return True
    return there.host == here.host and (here.scheme, here.port, there.scheme, there.port) == ("http", 80, "https", 443)


def content_type(response: Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


class Body:
    """The body of an answer as it arrives, decompressed. Raises McpError."""

    def __init__(self, response: Response, limit: int) -> None:
        self._response = response
        self._pieces: Iterator[bytes] = iter(())
        self._inflate: Inflater | None = None
        encoding = response.headers.get("content-encoding", "")
        try:
            self._inflate = inflater(encoding, ratio=INFLATE_RATIO, floor=limit)
        except UndecodableBody as error:
            raise ProtocolError(f"The answer of the MCP server cannot be read: {error}") from error

    async def read(self) -> bytes:
        """The next bytes; b"" at the end."""
        try:
            while True:
                if piece := next(self._pieces, b""):
                    return piece
                data = await self._response.read()
                if self._inflate is None:
                    return data
                self._pieces = self._inflate.pieces(data)
                if not data:
                    return next(self._pieces, b"")  # raises if the compressed body is not whole
        except UndecodableBody as error:
            raise ProtocolError(f"The answer of the MCP server cannot be read: {error}") from error
        except (HttpError, OSError) as error:
            raise ServerClosed(f"The connection to the MCP server was lost: {error}") from error


async def read_body(response: Response, limit: int) -> bytes:
    body, parts, size = Body(response, limit), list[bytes](), 0
    while data := await body.read():
        parts.append(data)
        size += len(data)
        if size > limit:
            raise TooLarge("The answer", limit)
    return b"".join(parts)


async def refusal(response: Response) -> tuple[HttpRefused, bytes]:
    """The error for an HTTP status that means failure, and the beginning of the body."""
    try:
        body = await read_body(response, REFUSAL_BYTES)
    except McpError:
        body = b""
    finally:
        response.close()
    text = body[:1000].decode("utf-8", "replace") if not body.lstrip().startswith((b"<", b"{")) else ""
    return HttpRefused(response.status, text), body


def _why(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, TimeoutError) and number is None:
        return f"no connection within {CONNECT_SECONDS:g} s"
    if number is not None and number > 0:  # not an error of a name's resolution
        return os.strerror(number)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
