"""WebSockets to a provider, kept open between turns. The websockets library is imported when one is opened."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from holdfast.llm.errors import LLMError, excerpt, invalid_request
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits, AnswerTooLarge
from holdfast.llm.route.transport import SchemeTransport
from holdfast.schema.codec import decode_any
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.asyncio.client import ClientConnection

    from holdfast.llm.route.transport import Timeouts, Transport
    from holdfast.llm.route.websocket import Chain, Conversation

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
LOST = ("previous_response_not_found", "websocket_connection_limit_reached")
"""Errors that concern the socket and not the request, which is sent again on another socket."""


class StaleSocket(Exception):
    """A socket of an earlier turn does not work any more, and nothing of this turn was received on it."""


class Place(Frozen):
    """Sockets with the same address and headers are interchangeable. The headers name credential and Session."""

    address: str
    headers: tuple[tuple[str, str], ...]


class Socket:
    def __init__(self, place: Place, connection: ClientConnection, opened: float, frame_limit: int) -> None:
        self.place = place
        self.opened = opened
        self.chain: Chain | None = None
        self.watch: asyncio.Task[None] | None = None
        self._reused = False
        self._received = False
        self._connection = connection
        self._frame_limit = frame_limit

    async def send(self, frame: bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._connection.send(frame, text=True)
        except (ConnectionClosed, OSError) as error:
            if self._reused:
                raise StaleSocket from error
            text = f"the request could not be written: {error}"
            raise LLMError("Transport", text, kind="write", retryable=True) from error

    async def receive(self, limits: Timeouts) -> bytes | None:
        """The next frame; None when the provider closed the socket normally."""
        limit, name = (limits.idle, "inactivity") if self._received else (limits.first_byte, "first-byte")
        may_be_stale = self._reused and not self._received
        try:
            async with asyncio.timeout(limit):
                frame = await self.next_frame()
        except TimeoutError as error:
            text = f"the provider sent nothing within {limit or 0:g} s ({name} limit)"
            raise LLMError("Transport", text, kind="timeout") from error
        except LLMError as error:
            if error.kind == "close" and may_be_stale:
                raise StaleSocket from error
            raise
        if may_be_stale and (frame is None or _is_lost(frame)):
            raise StaleSocket
        self._received = True
        return frame

    async def next_frame(self) -> bytes | None:
        from websockets.exceptions import ConnectionClosed

        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code == TOO_BIG and not closed.rcvd_then_sent:
                raise AnswerTooLarge("one event of the stream", self._frame_limit, "frame_bytes") from closed
            if closed.rcvd is None:
                raise LLMError(
                    "Transport", "the socket broke without a close", kind="close", retryable=True
                ) from closed
            code, reason = closed.rcvd.code, closed.rcvd.reason
            if code in NORMAL_CLOSE:
                return None
            shown = f" ({excerpt(reason, limit=200)})" if reason else ""
            text = f"the provider closed the socket with {code}{shown}"
            raise LLMError("Transport", text, kind="close", retryable=code not in LASTING_CLOSES) from closed

    def begin_turn(self) -> None:
        self._reused, self._received = True, False

    async def close(self) -> None:
        """Send a close frame and wait CLOSE_SECONDS at most for the provider's."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._connection.close()
        self._connection.transport.abort()


class Sockets:
    """Open sockets between turns, each with a task that notices when the provider closes it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._idle: list[Socket] = []
        self._refused: dict[str, float] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def take(
        self,
        place: Place,
        timeouts: Timeouts,
        limits: AnswerLimits = DEFAULT_LIMITS,
        conversation: Conversation | None = None,
        *,
        fresh: bool = False,
    ) -> Socket:
        """An idle socket that knows the conversation, or any idle one, or a new one. `fresh` always opens a new one."""
        free = [] if fresh else [socket for socket in self._idle if self._serves(socket, place)]
        knowing = [
            socket for socket in free if socket.chain and conversation and socket.chain.rest(conversation) is not None
        ]
        for socket in reversed(knowing or free):
            if await self._wake(socket):
                return socket
        return await self._open(place, timeouts, limits.frame_bytes)

    async def park(self, socket: Socket) -> None:
        """Keep a socket for the next turn. Beyond IDLE_LIMIT the one that was idle longest is closed."""
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
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

        class Connect(connect):
            def process_redirect(self, exc: Exception) -> Exception | str:
                return exc  # a redirect is not followed: the headers hold a credential

        if self._refused.get(place.address, 0.0) > self._now():
            raise LLMError("Transport", "the provider refused a WebSocket a short while ago", kind="open")
        try:
            connection = await Connect(
                place.address,
                additional_headers=place.headers,
                user_agent_header=None,
                compression=None,
                open_timeout=timeouts.connect,
                close_timeout=CLOSE_SECONDS,
                ping_interval=None,
                max_size=frame_limit,
            )
        except (InvalidHandshake, InvalidURI, OSError) as error:  # a TimeoutError is an OSError
            self._refused[place.address] = self._now() + REFUSED_SECONDS
            shown = f"HTTP {error.response.status_code}" if isinstance(error, InvalidStatus) else type(error).__name__
            raise LLMError("Transport", f"no WebSocket to the provider: {shown}", kind="open") from error
        self._refused.pop(place.address, None)
        return Socket(place, connection, self._now(), frame_limit)

    async def _wake(self, socket: Socket) -> bool:
        """Remove a socket from the idle ones; False if it has just ended by itself."""
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
        """Close an idle socket when a frame arrives on it, when the provider closes it, or after IDLE_SECONDS."""
        with suppress(LLMError, TimeoutError):
            async with asyncio.timeout(IDLE_SECONDS):
                await socket.next_frame()
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


def socket_address(url: str) -> str:
    """The ws or wss form of an http or https URL."""
    scheme, colon, rest = url.partition(":")
    known = {"https": "wss", "http": "ws"}.get(scheme.lower())
    if known is None:
        raise invalid_request(f"a WebSocket needs an http or https address, not {scheme}{colon}")
    return f"{known}:{rest}"


def _is_lost(frame: bytes) -> bool:
    try:
        event: Any = decode_any(frame)
        return event["type"] == "error" and (event.get("error") or event).get("code") in LOST
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        return False
