"""Streamable HTTP: each message is a POST; its answer is JSON or a stream of events.

Invariants
- A request ends with its answer or with one McpError. A stream that breaks before is taken up again where the version
  allows it, until the caller's time is over.
- The session id goes to the server that gave it and nowhere else. It is dropped with the next `initialize`."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.mcp.errors import HttpRefused, McpError, ProtocolError, ServerClosed, SessionExpired, shown
from holdfast.mcp.http_exchange import Body, content_type, read_body, refusal
from holdfast.mcp.messages import FRAME_LIMIT
from holdfast.mcp.sse import Events

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.http.connection import Response
    from holdfast.mcp.http_exchange import HttpExchange
    from holdfast.mcp.transport import Receiver, Route
    from holdfast.mcp.versions import Version

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
SESSION_CHARACTERS = 1024
RETRY_SECONDS = 1.0
LEAST_RETRY_SECONDS = 0.1
MOST_RETRY_SECONDS = 60.0
RESUME_ATTEMPTS = 5
DELETE_SECONDS = 2.0

log = logging.getLogger(__name__)


class Stream:
    """How far a stream of events was read."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.retry_seconds = RETRY_SECONDS
        self.events = 0


class StreamableHttp:
    has_headers = True

    def __init__(
        self,
        exchange: HttpExchange,
        *,
        frame_limit: int = FRAME_LIMIT,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._exchange = exchange
        self._limit = frame_limit
        self._sleep = sleep
        self._version: Version | None = None
        self._session: str | None = None
        self._listener: asyncio.Task[None] | None = None
        self._receiver: Receiver | None = None

    @property
    def cancels_by_closing(self) -> bool:
        return self._version is not None and self._version.stateless

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def send(self, frame: bytes, route: Route) -> None:
        if route.method == "initialize":
            self._session = self._version = None
        session = self._session
        headers = {**ACCEPT, **self._state(), **route.headers}
        response = await self._exchange.send("POST", headers, frame, repeatable=route.repeatable)
        try:
            if not 200 <= response.status < 300:
                await self._refused(response, route.id, session)
            elif route.id is not None:
                if route.method == "initialize":
                    self._session = _session_id(response)
                await self._answer(response, route.id)
            response.release()
        finally:
            response.close()

    def adopt(self, version: Version) -> None:
        self._version = version

    def listen(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
        self._listener = asyncio.create_task(self._listen())

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait([self._listener])
        if self._session is not None:
            headers, self._session = self._state(), None
            with suppress(McpError, TimeoutError):
                async with asyncio.timeout(DELETE_SECONDS):
                    (await self._exchange.send("DELETE", headers)).close()
        await self._exchange.close()

    # -- answers ---------------------------------------------------------------------------------------------------

    async def _answer(self, response: Response, id: int) -> None:
        receiver = self._receiving()
        kind = content_type(response)
        if kind == "application/json":
            if not receiver.received(await read_body(response, self._limit), id):
                raise ProtocolError("The MCP server answered with JSON that is no message")
        elif kind == "text/event-stream":
            await self._follow(response, id)
        elif response.status != 202:
            raise ProtocolError(f"The MCP server answered with {shown(kind) or 'no content type'}, not with JSON")
        if receiver.waits(id):
            raise ProtocolError("The MCP server accepted a request and did not answer it")

    async def _refused(self, response: Response, id: int | None, session: str | None) -> None:
        """Raises the error, or passes the JSON-RPC error in the body on."""
        error, body = await refusal(response)
        if session is not None and (response.status == 404 or _names_session(response.status, body)):
            raise SessionExpired(response.status, "the session has expired")
        receiver = self._receiving()
        if id is not None and content_type(response) == "application/json" and b'"error"' in body:
            receiver.received(body, id)
            if not receiver.waits(id):
                return
        raise error

    async def _follow(self, response: Response, id: int) -> None:
        """Reads events until the request is answered."""
        receiver, stream = self._receiving(), Stream()
        try:
            while True:
                lost: ServerClosed | None = None
                try:
                    await self._read(response, stream, id)
                except ServerClosed as error:
                    lost = error
                if not receiver.waits(id):
                    response.release()
                    return
                resumable = self._version is None or self._version.resumable
                if stream.last_id is None or not resumable:
                    raise lost or ServerClosed("The MCP server ended the stream before the answer")
                response.close()
                response = await self._resume(stream)
        finally:
            response.close()

    async def _read(self, response: Response, stream: Stream, id: int | None) -> None:
        """Until the end of the stream, or until the request is answered."""
        receiver = self._receiving()
        body, events = Body(response, self._limit), Events(self._limit)
        while data := await body.read():
            for event in events.feed(data):
                stream.events += 1
                if event.id is not None:
                    stream.last_id = event.id or None
                if event.retry_ms is not None:
                    seconds = event.retry_ms / 1000
                    stream.retry_seconds = min(max(seconds, LEAST_RETRY_SECONDS), MOST_RETRY_SECONDS)
                if event.data and event.kind == "message":
                    receiver.received(event.data, id)
            if id is not None and not receiver.waits(id):
                return
            await asyncio.sleep(0)  # others have their turn, however much is sent

    async def _resume(self, stream: Stream) -> Response:
        delay = stream.retry_seconds
        for attempt in range(1, RESUME_ATTEMPTS + 1):
            await self._sleep(delay)
            delay = min(delay * 2, MOST_RETRY_SECONDS)
            try:
                return await self._get(stream)
            except ServerClosed:
                if attempt == RESUME_ATTEMPTS:
                    raise
        raise AssertionError

    # -- the server's own messages ---------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """A stream for messages that belong to no request. A server need not have it."""
        stream, failures = Stream(), 0
        while True:
            response: Response | None = None
            before = stream.events
            try:
                response = await self._get(stream)
                await self._read(response, stream, None)
            except ServerClosed:
                pass
            except McpError:
                return  # no such stream, or a call will tell the reason
            except Exception:
                log.exception("listening to an MCP server failed")
                return
            finally:
                if response is not None:
                    response.close()
            failures = 0 if stream.events > before else failures + 1
            delay = min(stream.retry_seconds * 2 ** min(failures, 6), MOST_RETRY_SECONDS)
            await self._sleep(delay * random.uniform(0.8, 1.2))

    async def _get(self, stream: Stream) -> Response:
        session = self._session
        headers = {"accept": "text/event-stream", **self._state()}
        if stream.last_id is not None:
            headers["last-event-id"] = stream.last_id
        response = await self._exchange.send("GET", headers)
        if response.status == 200 and content_type(response) == "text/event-stream":
            return response
        error, _ = await refusal(response)
        if response.status == 404 and session is not None:
            raise SessionExpired(404, "the session has expired")
        if response.status >= 500:
            raise ServerClosed(str(error))
        raise HttpRefused(response.status, "it has no stream of events here")

    def _state(self) -> dict[str, str]:
        headers = {"mcp-session-id": self._session} if self._session is not None else {}
        if self._version is not None:
            headers["mcp-protocol-version"] = self._version.name
        return headers

    def _receiving(self) -> Receiver:
        assert self._receiver is not None
        return self._receiver


def _names_session(status: int, body: bytes) -> bool:
    """Some servers answer 400 instead of 404, with an error that names the session."""
    return status == 400 and b'"error"' in body and b"-32000" in body and b"session" in body.lower()


def _session_id(response: Response) -> str | None:
    session = response.headers.get("mcp-session-id")
    if session is not None and not (
        0 < len(session) <= SESSION_CHARACTERS and all("!" <= character <= "~" for character in session)
    ):
        raise ProtocolError("The MCP server gave a session id that is not valid")
    return session
