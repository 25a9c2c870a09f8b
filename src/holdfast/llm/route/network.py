"""The real transport: HTTP/1.1 over connections that are kept for the next turn. Nothing of HTTP is imported before
something is sent; WebSockets come from aiohttp, which would be most of a cold start."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from typing import TYPE_CHECKING

from holdfast.llm.errors import LLMError
from holdfast.llm.explain import place, unreachable
from holdfast.llm.limits import INFLATION_FLOOR, AnswerTooLarge
from holdfast.llm.route.dial import Proxy, Unsendable, dial, parse
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import aiohttp

    from holdfast.llm.route.connection import Answer, Connection
    from holdfast.llm.route.dial import Address, Origin
    from holdfast.llm.route.transport import HttpRequest, Timeouts
    from holdfast.llm.route.websocket import Sockets

KEEP_SECONDS = 60.0
STALE_SECONDS = 1.0
"""A kept connection that ends sooner than this, without a word, had been let go of before it was used."""
ADDRESSES = 256
INFLATED = 64 * 1024
"""Of a compressed body at once, however well it was compressed."""
UNFIT = pattern(r"[\x00\r\n]")
NAME = pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class NetworkTransport:
    def __init__(self) -> None:
        self._closed = False
        self._connections: set[Connection] = set()
        self._idle: dict[Origin, list[Connection]] = {}
        self._addresses: dict[str, Address] = {}
        self._context: ssl.SSLContext | None = None
        self._session: aiohttp.ClientSession | None = None
        self._sockets: Sockets | None = None

    async def send(self, request: HttpRequest) -> NetworkResponse:
        timeouts = request.timeouts
        try:
            address = self._address(request.url)
            head = _head(request, address)
        except ValueError as error:  # an address or a header that cannot be sent
            raise _unsendable(error) from error
        origin = address.origin
        try:
            answer = await self._ask(origin, head, request)
        except TimeoutError as error:
            raise _late("first-byte", timeouts.first_byte, f"{place(origin)} did not answer") from error
        except OSError as error:  # some of which are ValueErrors too
            raise unreachable(origin, error) from error
        except ValueError as error:  # of a name that cannot be looked up
            raise _unsendable(error) from error
        return NetworkResponse(answer, timeouts, request.limits.inflation, place(origin))

    @property
    def sockets(self) -> Sockets:
        from holdfast.llm.route.websocket import Sockets

        if self._sockets is None:
            self._sockets = Sockets(self.session)
        return self._sockets

    def session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
                trust_env=True,
                skip_auto_headers=("user-agent",),
            )
        return self._session

    async def close(self) -> None:
        self._closed = True
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._idle.clear()
        if self._sockets is not None:
            await self._sockets.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, origin: Origin, head: bytes, request: HttpRequest) -> Answer:
        from holdfast.llm.route.connection import Unanswered

        connection = self._take(origin)
        if connection is not None:
            began = connection.loop.time()
            try:
                return await connection.ask(head, request.body, request.timeouts.first_byte)
            except Unanswered:
                if connection.loop.time() - began > STALE_SECONDS:
                    raise
                # The other side had let go of it, and of others like it.
                self._forget(origin)
        async with asyncio.timeout(request.timeouts.first_byte):
            connection = await self._open(origin, request.timeouts)
            return await connection.ask(head, request.body)

    def _address(self, url: str) -> Address:
        known = self._addresses.get(url)
        if known is None:
            if len(self._addresses) >= ADDRESSES:
                self._addresses.clear()
            known = self._addresses[url] = parse(url)
        return known

    def _forget(self, origin: Origin) -> None:
        for connection in self._idle.pop(origin, ()):
            connection.close()

    def _take(self, origin: Origin) -> Connection | None:
        """The one that was used last: its other side is the least likely to have left."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if not connection.closed:
                connection.expire(None)
                return connection
        self._idle.pop(origin, None)
        return None

    async def _open(self, origin: Origin, limits: Timeouts) -> Connection:
        from holdfast.llm.route.connection import Connection

        def keep(connection: Connection) -> None:
            connection.expire(KEEP_SECONDS)
            idle = self._idle.setdefault(origin, [])
            idle[:] = (each for each in (*idle, connection) if not each.closed)

        try:
            async with asyncio.timeout(limits.connect):
                opened = await dial(origin, lambda: Connection(keep), self._tls)
        except TimeoutError as error:
            if error.errno is not None:  # the system's own limit
                raise ConnectionError(error.errno, error.strerror) from error
            raise _late("connect", limits.connect, f"Cannot reach {place(origin)}: no connection") from error
        if self._closed:
            opened.close()
            raise ConnectionAbortedError("the transport was closed")
        self._connections = {each for each in self._connections if not each.closed} | {opened}
        return opened

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


class NetworkResponse:
    def __init__(self, answer: Answer, timeouts: Timeouts, inflation: int, place: str) -> None:
        self._answer = answer
        self._place = place
        self._timeouts = timeouts
        self._inflation = inflation
        self.status = answer.status
        self.headers = answer.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        inflate = _inflation(self.headers.get("content-encoding", "identity"), self._inflation)
        limit, name, what = self._timeouts.first_byte, "first-byte", f"{self._place} sent no body"
        try:
            while True:
                data = await self._answer.read(limit)
                limit, name, what = self._timeouts.idle, "inactivity", f"{self._place} fell silent: nothing"
                if inflate is not None:
                    for piece in inflate.pieces(data):
                        yield piece
                elif data:
                    yield data
                if not data:
                    return
        except TimeoutError as error:
            raise _late(name, limit, what) from error
        except (OSError, zlib.error) as error:
            text = f"the stream from {self._place} broke off: {error}"
            raise LLMError("Transport", text, kind="read") from error

    def release(self) -> None:
        self._answer.release()

    async def close(self) -> None:
        self._answer.close()


class _Inflation:
    """Decompresses as data arrives. `ratio` bounds how much larger the body may become, beyond INFLATION_FLOOR."""

    def __init__(self, bits: int, ratio: int) -> None:
        self._inflater = zlib.decompressobj(bits)
        self._ratio = ratio
        self._consumed = 0
        self._given = 0

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What follows from these bytes; none are the end."""
        if not data and not self._inflater.eof:
            raise zlib.error("the compressed body is not whole")
        while data and not self._inflater.eof:
            piece = self._inflater.decompress(data, INFLATED)
            self._given += len(piece)
            self._consumed += len(data) - len(self._inflater.unconsumed_tail)
            if self._given > INFLATION_FLOOR and self._given > self._consumed * self._ratio:
                raise AnswerTooLarge("the decompressed body", self._ratio, "inflation")
            if piece:
                yield piece
            data = self._inflater.unconsumed_tail


def _inflation(encoding: str, ratio: int) -> _Inflation | None:
    match encoding.strip().lower():
        case "identity" | "":
            return None
        case "gzip" | "x-gzip":
            return _Inflation(16 + zlib.MAX_WBITS, ratio)
        case "deflate":
            return _Inflation(zlib.MAX_WBITS, ratio)
        case other:
            raise LLMError("InvalidProviderOutput", f"the answer is encoded as {other[:20]}, which nobody asked for")


def _head(request: HttpRequest, address: Address) -> bytes:
    origin, target = address.origin, address.target
    headers = {"host": origin.authority}
    proxy = Proxy.of(origin)
    if proxy is not None and not origin.is_secure:
        target = f"http://{origin.authority}{target}"
        headers |= proxy.headers
    if address.credentials is not None:
        headers["authorization"] = address.credentials
    headers |= {name.lower(): value for name, value in request.headers.items()}
    headers["content-length"] = str(request.length)
    if "transfer-encoding" in headers:
        raise Unsendable("the length of a body is always said, and not chosen")
    for name, value in headers.items():
        if not NAME.fullmatch(name) or UNFIT.search(value):
            raise Unsendable("a header has characters that none may have")
    lines = (f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", "")
    return "\r\n".join(lines).encode()


def _unsendable(error: ValueError) -> LLMError:
    shown = f": {error}" if isinstance(error, Unsendable) else f" ({type(error).__name__})"
    return LLMError("InvalidRequest", f"the request cannot be sent{shown}")


def _late(name: str, seconds: float | None, what: str) -> LLMError:
    return LLMError(
        "Transport", f"{what} within {seconds or 0:g} s ({name} limit)", kind="timeout", retryable=name == "connect"
    )
