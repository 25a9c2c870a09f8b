"""One HTTP/1.1 connection: a request goes out, its answer comes in as it arrives, and then another may follow.

Invariants
- Whatever the other side sends, its answer ends: with the body's end or with one ConnectionError that says why.
- A connection is free again only after an answer that came whole, for a request that went out whole.
- What nobody has read yet is bounded: beyond READ_AHEAD the other side has to wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import httptools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HEAD_LIMIT = 64 * 1024
READ_AHEAD = 256 * 1024
LINGER_SECONDS = 2.0
"""For the end of an answer of which everything else was heard."""
PIECE = 512 * 1024
"""What is written at once: more would be copied into the transport's buffer while the loop stands still."""
BROKEN_OFF = "the connection was closed in the middle of the answer"


class Unanswered(ConnectionError):
    """Not a byte came back. On a connection that was used before, the other side may just have let go of it."""

    def __init__(self) -> None:
        super().__init__("the connection was closed before an answer came")


class NotHttp(ConnectionError):
    def __init__(self) -> None:
        super().__init__("the answer is not HTTP/1.1")


class HeadTooLarge(ConnectionError):
    def __init__(self) -> None:
        super().__init__(f"the head of the answer is larger than {HEAD_LIMIT} bytes")


class Answer:
    """A response as it arrives. It outlives its connection's interest in it: what came is there until it is read."""

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._connection: Connection | None = connection
        self._loop = connection.loop
        self._pieces: list[bytes] = []
        self.unread = 0
        self._ended = False
        self._error: ConnectionError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def begun(self) -> bool:
        return self.status != 0

    async def head(self, deadline: float | None = None) -> None:
        """Until status and headers are there. Raises TimeoutError at the deadline, in the loop's time."""
        while not self.begun:
            if self._error is not None:
                raise self._error
            await self.change(deadline)

    async def read(self, seconds: float | None = None) -> bytes:
        """What has come since; nothing at the end. Raises TimeoutError."""
        deadline = None if seconds is None else self._loop.time() + seconds
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            await self.change(deadline)
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self.unread = 0
        if self._connection is not None:
            self._connection.resume()
        return data

    def release(self) -> None:
        """Nobody reads on, and the rest should be short: the connection is kept if it comes soon."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.linger()

    def close(self) -> None:
        """Nobody reads on. An answer that is not over takes its connection with it."""
        if self._connection is not None:
            self._connection.close()

    async def change(self, deadline: float | None) -> None:
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_at(deadline, _late, waiter) if deadline is not None else None
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def add(self, data: bytes) -> None:
        self._pieces.append(data)
        self.unread += len(data)

    @property
    def failed(self) -> bool:
        return self._error is not None

    def end(self, error: ConnectionError | None = None) -> None:
        self._ended, self._error, self._connection = True, error, None
        self.wake()


class Connection(asyncio.Protocol):
    """`on_free` hears of every answer that left the connection fit for the next request."""

    def __init__(self, on_free: Callable[[Connection], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.used = False
        self.closed = False
        self._expiry: asyncio.TimerHandle | None = None
        self._on_free = on_free
        self._answer: Answer | None = None
        self._full = False
        self._paused = False

    async def ask(self, head: bytes, body: Sequence[bytes], seconds: float | None = None) -> Answer:
        """Send a request and wait for the head of its answer, which may come before all of the body has gone out.
        Raises TimeoutError."""
        deadline = None if seconds is None else self.loop.time() + seconds
        answer = self._answer = Answer(self)
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._head_size = self._field_size = 0
        self._written = self._complete = False
        try:
            for block in _blocks(head, body):
                while self._full and not (answer.begun or answer.failed):
                    await answer.change(deadline)
                if answer.begun or answer.failed:
                    break
                self._transport.write(block)
            else:
                self._written = True
            await answer.head(deadline)
        except BaseException:
            self.close()  # whoever asked is gone, even if an answer has just begun
            raise
        return answer

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def linger(self) -> None:
        """Wait for the end of an answer that nobody reads on: not for long, and only for READ_AHEAD of it."""
        self.expire(LINGER_SECONDS)
        self.resume()

    def expire(self, seconds: float | None) -> None:
        """Close in so many seconds, unless something else is said before."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self.loop.call_later(seconds, self.close) if seconds is not None else None

    def close(self) -> None:
        self.closed = True
        self._transport.abort()
        self.expire(None)
        if self._answer is not None:
            self._end(ConnectionAbortedError(BROKEN_OFF))

    # -- what the loop tells -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self.close()  # nobody asked
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            cause = error.__context__ if isinstance(error.__context__, ConnectionError) else NotHttp()
            self._end(None if self._complete else cause)
            self.close()
            return
        if self._complete:
            self._end(None)
            if self._reusable:
                self.used = True
                self._on_free(self)
            else:
                self.close()
            return
        if not answer.begun:
            self._head_size += len(data)
            if self._head_size > HEAD_LIMIT:
                self._end(HeadTooLarge())
                self.close()
        elif answer.unread > READ_AHEAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        answer.wake()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self.expire(None)
        answer = self._answer
        if answer is None:
            return
        until_closed = answer.begun and not {"content-length", "transfer-encoding"} & self._headers.keys()
        if until_closed and error is None:
            self._end(None)
        else:
            heard = answer.begun or self._head_size > 0
            self._end(ConnectionResetError(BROKEN_OFF) if heard else Unanswered())

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self._answer is not None:
            self._answer.wake()

    # -- what the parser tells -----------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self._field_size += len(name) + len(value)
        if self._field_size > HEAD_LIMIT:
            raise HeadTooLarge
        if self._answer is not None and self._answer.begun:
            return  # a trailer, which changes nothing any more
        self._headers[name.decode("latin-1").lower()] = value.decode("utf-8", "replace")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an interim one: what counts follows
            self._headers = {}
        elif self._answer is not None and not self._complete:
            self._answer.status, self._answer.headers = status, self._headers

    def on_body(self, data: bytes) -> None:
        if self._answer is not None and not self._complete:
            self._answer.add(data)

    def on_message_begin(self) -> None:
        if self._complete:
            self._reusable = False  # more than was asked for

    def on_message_complete(self) -> None:
        if self._answer is not None and self._answer.begun and not self._complete:
            self._complete = True
            self._reusable = self._written and not self._full and self._parser.should_keep_alive()

    def _end(self, error: ConnectionError | None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.end(error)
        self.resume()


def _late(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())


def _blocks(head: bytes, body: Sequence[bytes]) -> Iterator[bytes]:
    """Everything that goes out, in pieces of a good size."""
    if sum(map(len, body)) <= PIECE:  # as most are, in however many parts
        yield b"".join((head, *body))
        return
    block, size = [head], len(head)
    for piece in body:
        for start in range(0, len(piece), PIECE):
            part = piece if len(piece) <= PIECE else piece[start : start + PIECE]
            if size + len(part) > PIECE:
                yield b"".join(block)
                block, size = [], 0
            block.append(part)
            size += len(part)
    yield b"".join(block)
