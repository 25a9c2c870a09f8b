"""OpenAI Responses over a WebSocket: the body of the HTTP request as one text frame, its events as frames back.

A socket serves one turn at a time and stays open for the next of its Session. The provider remembers on it what was
said last, so a conversation that went on from there is sent without its past."""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from holdfast.llm.errors import LLMError, excerpt, invalid_request
from holdfast.llm.event import ProviderError
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits, AnswerTooLarge
from holdfast.llm.protocols.openai_responses import CLOSING, OPENING, OpenAIResponses
from holdfast.llm.request import MediaPart, TextPart
from holdfast.llm.response import Fold
from holdfast.llm.route.transport import SchemeTransport
from holdfast.llm.stream import Decoding
from holdfast.schema.codec import decode_any
from holdfast.schema.codec import encode as to_json
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    import aiohttp

    from holdfast.llm.event import Event
    from holdfast.llm.pace import Pace
    from holdfast.llm.request import Part
    from holdfast.llm.route.transport import HttpRequest, Timeouts, Transport
    from holdfast.llm.stream import Prepared

# The provider ends a connection after an hour; one that might not last a turn is not used for another.
AGE_SECONDS = 50 * 60
IDLE_SECONDS = 10 * 60
IDLE_LIMIT = 64
REFUSED_SECONDS = 5 * 60
CLOSE_SECONDS = 0.2
NORMAL_CLOSE = (1000, 1005)
TOO_BIG = 1009
LASTING_CLOSES = (1003, 1007, 1008, TOO_BIG, 1010)
"""Codes that refuse what was sent: the same request would be refused again."""
NOT_IN_HANDSHAKE = ("content-type", "content-length", "accept")
# The socket is of no more use, but the request itself is well: it goes out once more, whole, on another.
LOST = ("previous_response_not_found", "websocket_connection_limit_reached")


async def socket_turn(
    transport: Transport, prepared: Prepared, request: HttpRequest, pace: Pace | None = None
) -> AsyncGenerator[list[Event], None]:
    """One turn. Raises Transport `open`, before anything was sent, when there is no socket to be had."""
    sockets = sockets_of(transport, request.url)
    try:
        async with aclosing(_turn(sockets, prepared, request, pace, fresh=False)) as batches:
            async for batch in batches:
                yield batch
        return
    except _Stale:
        pass
    async with aclosing(_turn(sockets, prepared, request, pace, fresh=True)) as batches:
        async for batch in batches:
            yield batch


class _Stale(Exception):
    """A socket of an earlier turn was no good any more; nothing of this turn had been heard on it."""


async def _turn(
    sockets: Sockets, prepared: Prepared, request: HttpRequest, pace: Pace | None, *, fresh: bool
) -> AsyncGenerator[list[Event], None]:
    conversation = _Conversation.of(prepared, request)
    decoder = conversation.protocol.decoder(prepared.model, prepared.request, request.limits)
    decoding = Decoding(decoder, request.limits)
    place = Place(address(request.url), _handshake(request))
    socket: Socket | None = await sockets.take(place, request.timeouts, request.limits, conversation, fresh=fresh)
    assert socket is not None
    try:
        await socket.send(conversation.frame(socket.chain))
        heard = Fold()
        while (frame := await socket.receive(request.timeouts)) is not None:
            decoding.received(len(frame))
            batch, failed = decoding.events((frame,))
            heard.add(batch)
            if failed is not None:
                if batch:
                    yield batch
                raise failed
            if decoder.done:
                break
            if batch:
                yield batch
            if pace is not None and (wait := pace.wait_after(len(frame))):
                await asyncio.sleep(wait)
        else:
            decoder.finish()  # which says that there was no end
        if not isinstance(batch[-1], ProviderError):
            # Before the last events go out: whoever has them may not come back for more.
            socket.chain = conversation.chain(heard)
            parked, socket = socket, None
            await sockets.park(parked)
        yield batch
    finally:
        if socket is not None:
            await socket.close()


class _Conversation(Frozen):
    """The bytes of a request, and where its conversation begins in them."""

    prepared: Prepared
    protocol: OpenAIResponses
    body: bytes
    start: int

    @classmethod
    def of(cls, prepared: Prepared, request: HttpRequest) -> _Conversation:
        protocol = prepared.model.route.protocol
        if not isinstance(protocol, OpenAIResponses):
            raise invalid_request(f"{protocol.name} has no WebSocket form")
        return cls(prepared, protocol, b"".join(request.body), protocol.input_start(prepared.draft))

    def frame(self, chain: Chain | None) -> bytes:
        rest = chain and chain.rest(self)
        if chain is None or rest is None:
            return b'{"type":"response.create",' + self.body[len(OPENING) :]
        previous = to_json(chain.response_id)
        head = self.body[len(OPENING) : self.start]
        return b'{"type":"response.create","previous_response_id":%s,%s%s' % (previous, head, rest)

    def chain(self, heard: Fold) -> Chain | None:
        """What the next request may build on, if this turn ended as it should."""
        native = (heard.metadata or {}).get(self.protocol.namespace, {})
        response_id = native.get("responseId")
        if native.get("finishReason") != "completed" or not response_id:
            return None
        parts = heard.response().parts
        # History may come back without native details, of its texts or of everything: it is the same turn still.
        versions = (parts, _plain(parts, TextPart), _plain(parts, object))
        replays = tuple(
            dict.fromkeys(self.protocol.replayed(self.prepared.draft, self.prepared.model, each) for each in versions)
        )
        end = len(self.body) - len(CLOSING)
        return Chain(
            response_id, self.prepared.model.id, end - self.start, _digest(self.body, self.start, end), replays
        )


class Chain(Frozen):
    """The provider's newest response on a socket, and the input that led to it: as a digest, for it may be large.
    `replays` are the forms in which that response can come back as history."""

    response_id: str
    model_id: str
    length: int
    digest: bytes
    replays: tuple[bytes, ...]

    def rest(self, conversation: _Conversation) -> bytes | None:
        """What of the body the provider has not seen, up to its end; None when it is not the same conversation."""
        body, start = conversation.body, conversation.start
        end = start + self.length
        if self.model_id != conversation.prepared.model.id or b'"previous_response_id"' in body[:start]:
            return None
        if end >= len(body) - len(CLOSING) or _digest(body, start, end) != self.digest:
            return None
        for replay in self.replays:
            known = b",%s," % replay if replay else b","
            if body.startswith(known, end):
                return body[end + len(known) :]
        return None


class Place(Frozen):
    """Sockets are alike when they lead to the same address with the same headers, which name credential and Session."""

    address: str
    headers: tuple[tuple[str, str], ...]


class Socket:
    def __init__(
        self,
        place: Place,
        connection: aiohttp.ClientWebSocketResponse[Literal[False]],
        opened: float,
        frame_limit: int,
    ) -> None:
        self.place = place
        self.opened = opened
        self.chain: Chain | None = None
        self.watch: asyncio.Task[None] | None = None
        self.reused = False
        self._connection = connection
        self._frame_limit = frame_limit
        self._heard = False

    async def send(self, frame: bytes) -> None:
        import aiohttp

        try:
            await self._connection.send_frame(frame, aiohttp.WSMsgType.TEXT)
        except (aiohttp.ClientError, OSError) as error:
            if self.reused:
                raise _Stale from error
            text = f"the request could not be written: {error}"
            raise LLMError("Transport", text, kind="write", retryable=True) from error

    async def receive(self, limits: Timeouts) -> bytes | None:
        """The next frame; None when the provider closed the socket in good order."""
        limit, name = (limits.idle, "inactivity") if self._heard else (limits.first_byte, "first-byte")
        try:
            async with asyncio.timeout(limit):
                frame = await self.next()
        except TimeoutError as error:
            text = f"the provider sent nothing within {limit or 0:g} s ({name} limit)"
            raise LLMError("Transport", text, kind="timeout") from error
        except LLMError as error:
            if error.kind == "close" and self.reused and not self._heard:
                raise _Stale from error
            raise
        if self.reused and not self._heard and (frame is None or _is_lost(frame)):
            raise _Stale
        self._heard = True
        return frame

    async def next(self) -> bytes | None:
        import aiohttp

        message = await self._connection.receive()
        match message.type:
            case aiohttp.WSMsgType.TEXT | aiohttp.WSMsgType.BINARY:
                data: bytes = message.data
                return data
            case aiohttp.WSMsgType.CLOSE:
                code = message.data or 1005
                if code in NORMAL_CLOSE:
                    return None
                reason = f" ({excerpt(message.extra, limit=200)})" if message.extra else ""
                text = f"the provider closed the socket with {code}{reason}"
                raise LLMError("Transport", text, kind="close", retryable=code not in LASTING_CLOSES)
            case aiohttp.WSMsgType.ERROR if getattr(message.data, "code", None) == TOO_BIG:
                raise AnswerTooLarge("one event of the stream", self._frame_limit, "frame_bytes")
            case _:
                raise LLMError("Transport", "the socket broke without a close", kind="close", retryable=True)

    def begin_turn(self) -> None:
        self.reused, self._heard = True, False

    async def close(self) -> None:
        """Politely, but not for long: the provider may be in the middle of a sentence."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._connection.close(code=1000)


class Sockets:
    """Open sockets between turns, each with a task that answers the provider's pings and notices when it leaves."""

    def __init__(self, session: Callable[[], aiohttp.ClientSession], now: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._now = now
        self._idle: list[Socket] = []
        self._refused: dict[str, float] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def take(
        self,
        place: Place,
        timeouts: Timeouts,
        limits: AnswerLimits = DEFAULT_LIMITS,
        conversation: _Conversation | None = None,
        *,
        fresh: bool = False,
    ) -> Socket:
        """One that knows the conversation, else any that is free, else another."""
        free = [] if fresh else [socket for socket in self._idle if self._serves(socket, place)]
        knowing = [
            socket for socket in free if socket.chain and conversation and socket.chain.rest(conversation) is not None
        ]
        for socket in reversed(knowing or free):
            if await self._wake(socket):
                return socket
        return await self._open(place, timeouts, limits.frame_bytes)

    async def park(self, socket: Socket) -> None:
        """Keep it for the next turn; the longest unused one goes when there are too many."""
        self._idle.append(socket)
        socket.watch = asyncio.get_running_loop().create_task(self._watch(socket), name="idle socket")
        while len(self._idle) > IDLE_LIMIT:
            oldest = self._idle[0]
            if await self._wake(oldest):
                await oldest.close()

    async def close(self) -> None:
        for socket in list(self._idle):
            if await self._wake(socket):
                await socket.close()
        if self._closing:
            await asyncio.wait(self._closing)

    def _serves(self, socket: Socket, place: Place) -> bool:
        return socket.place == place and self._now() - socket.opened < AGE_SECONDS

    async def _open(self, place: Place, timeouts: Timeouts, frame_limit: int) -> Socket:
        import aiohttp

        if self._refused.get(place.address, 0.0) > self._now():
            raise LLMError("Transport", "the provider refused a WebSocket a short while ago", kind="open")
        try:
            async with asyncio.timeout(timeouts.connect):
                connection = await self._session().ws_connect(
                    place.address,
                    headers=dict(place.headers),
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
                    max_msg_size=frame_limit,
                    decode_text=False,
                )
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is an OSError
            self._refused[place.address] = self._now() + REFUSED_SECONDS
            shown = (
                f"HTTP {error.status}" if isinstance(error, aiohttp.WSServerHandshakeError) else type(error).__name__
            )
            raise LLMError("Transport", f"no WebSocket to the provider: {shown}", kind="open") from error
        self._refused.pop(place.address, None)
        return Socket(place, connection, self._now(), frame_limit)

    async def _wake(self, socket: Socket) -> bool:
        """Take it out of the idle ones; False when it has just ended by itself."""
        if socket not in self._idle:
            return False
        self._idle.remove(socket)
        assert socket.watch is not None
        socket.watch.cancel()
        try:
            await asyncio.wait([socket.watch])
        except asyncio.CancelledError:
            await socket.close()
            raise
        socket.begin_turn()
        return True

    async def _watch(self, socket: Socket) -> None:
        """Nothing is expected of an idle socket; whatever comes, or nothing for long, ends it."""
        with suppress(LLMError, TimeoutError):
            async with asyncio.timeout(IDLE_SECONDS):
                await socket.next()
        self._idle.remove(socket)
        task = asyncio.current_task()
        assert task is not None
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        await socket.close()


@runtime_checkable
class SocketTransport(Protocol):
    @property
    def sockets(self) -> Sockets: ...


def sockets_of(transport: Transport, url: str) -> Sockets:
    if isinstance(transport, SchemeTransport):
        transport = transport.of(url)
    if not isinstance(transport, SocketTransport):
        raise LLMError("Transport", "this transport has no WebSockets")
    return transport.sockets


def address(url: str) -> str:
    scheme, colon, rest = url.partition(":")
    known = {"https": "wss", "http": "ws"}.get(scheme.lower())
    if known is None:
        raise invalid_request(f"a WebSocket needs an http or https address, not {scheme}{colon}")
    return f"{known}:{rest}"


def _handshake(request: HttpRequest) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in request.headers.items() if name.lower() not in NOT_IN_HANDSHAKE)


def _plain(parts: tuple[Part, ...], kind: type) -> tuple[Part, ...]:
    return tuple(
        msgspec.structs.replace(part, provider_metadata=None)
        if isinstance(part, kind) and not isinstance(part, MediaPart)
        else part
        for part in parts
    )


def _digest(body: bytes, start: int, end: int) -> bytes:
    return hashlib.blake2b(memoryview(body)[start:end], digest_size=16).digest()


def _is_lost(frame: bytes) -> bool:
    try:
        event: Any = decode_any(frame)
        return event["type"] == "error" and (event.get("error") or event).get("code") in LOST
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        return False
