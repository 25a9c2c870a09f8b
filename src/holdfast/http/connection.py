"""One HTTP/1.1 connection on asyncio: a request goes out, its response comes in as it arrives, then another may follow.

Invariants
- Every response ends: with the end of its body or with one HttpError.
- A connection is reused only after a complete response to a request that was written completely.
- Unread bytes are bounded: beyond READ_AHEAD, reading from the socket is paused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from holdfast.http.errors import HttpError, ResponseTimeout, ResponseTruncated
from holdfast.http.parser import ResponseParser
from holdfast.http.request import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

READ_AHEAD = 256 * 1024
LINGER_SECONDS = 2.0
"""How long a released response may take to end before its connection is closed."""


class Response:
    """Read the body with `read`, then call `close`; or `release`, when what follows does not matter."""

    def __init__(self, connection: Connection, parser: ResponseParser) -> None:
        self._connection: Connection | None = connection
        self._loop = connection.loop
        self._parser = parser
        self._ended = False
        self._error: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def status(self) -> int:
        return self._parser.status

    @property
    def headers(self) -> dict[str, str]:
        """Names in lower case."""
        return self._parser.headers

    async def read(self, seconds: float | None = None) -> bytes:
        """The next bytes of the body; b"" at its end. Raises HttpError, and ResponseTimeout after so many seconds."""
        parser = self._parser
        deadline = None if seconds is None else self._loop.time() + seconds
        while not parser.unread:
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            await self.wait_for_change(deadline)
        data = parser.take()
        if self._connection is not None:
            self._connection.resume_reading()
        return data

    def release(self) -> None:
        """The rest of the body does not matter. The connection is reused if it ends soon."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.linger()

    def close(self) -> None:
        """Close the connection, unless the response is complete or was released."""
        if self._connection is not None:
            self._connection.close()

    # -- for the connection ----------------------------------------------------------------------------------------

    async def wait_for_head(self, deadline: float | None) -> None:
        while not self.is_settled:
            await self.wait_for_change(deadline)
        if not self.status:
            assert self._error is not None
            raise self._error

    @property
    def is_settled(self) -> bool:
        """The head has arrived, or will not."""
        return self._parser.status != 0 or self._error is not None

    async def wait_for_change(self, deadline: float | None) -> None:
        """Until `wake` is called. Raises ResponseTimeout at the deadline, in the loop's time."""
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_at(deadline, _expire, waiter) if deadline is not None else None
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, error: HttpError | None) -> None:
        self._ended, self._error, self._connection = True, error, None
        self.wake()


class Connection(asyncio.Protocol):
    """`on_free` is called after every response that leaves the connection ready for another request."""

    def __init__(self, on_free: Callable[[Connection], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = False
        self._on_free = on_free
        self._response: Response | None = None
        self._parser = ResponseParser()
        self._expiry: asyncio.TimerHandle | None = None
        self._request_written = False
        self._write_paused = False
        self._read_paused = False

    async def send(self, head: bytes, body: Sequence[bytes], seconds: float | None = None) -> Response:
        """Send a request and wait for the head of its response, which may come before the whole body went out.
        Raises HttpError, and ResponseTimeout after so many seconds."""
        deadline = None if seconds is None else self.loop.time() + seconds
        self._parser = ResponseParser()
        response = self._response = Response(self, self._parser)
        self._request_written = False
        try:
            for block in blocks(head, body):
                while self._write_paused and not response.is_settled:
                    await response.wait_for_change(deadline)
                if response.is_settled:
                    break
                self._transport.write(block)
            else:
                self._request_written = True
            await response.wait_for_head(deadline)
        except BaseException:
            self.close()  # nobody holds the response
            raise
        return response

    def resume_reading(self) -> None:
        if self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()

    def linger(self) -> None:
        """Wait briefly for the end of a response that nobody reads."""
        self.close_after(LINGER_SECONDS)
        self.resume_reading()

    def close_after(self, seconds: float | None) -> None:
        """Close in so many seconds; None cancels an earlier call."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self.loop.call_later(seconds, self.close) if seconds is not None else None

    def close(self) -> None:
        self.closed = True
        self._transport.abort()
        self.close_after(None)
        self._end(ResponseTruncated())

    # -- callbacks of the loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        response, parser = self._response, self._parser
        if response is None:
            self.close()  # no request was sent
            return
        try:
            parser.feed(data)
        except HttpError as error:
            self._end(error)
            self.close()
            return
        if parser.complete:
            reusable = parser.reusable and self._request_written and not self._write_paused
            self._end(None)
            if reusable:
                self._on_free(self)
            else:
                self.close()
            return
        if parser.unread > READ_AHEAD and not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()
        response.wake()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self.close_after(None)
        try:
            self._parser.end()
        except HttpError as failure:
            self._end(failure)
        else:
            self._end(ResponseTruncated() if error is not None else None)

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._response is not None:
            self._response.wake()

    def _end(self, error: HttpError | None) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.end(error)
        self.resume_reading()


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(ResponseTimeout())
