"""A connection to a terminal: output, input, and the position to continue from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

from holdfast.client.call import response_error
from holdfast.client.errors import ClientError
from holdfast.client.transport import SocketClosed
from holdfast.schema.codec import decoder
from holdfast.schema.exceptions import received

if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.client.call import Operation
    from holdfast.client.transport import Socket, SocketRefused, SyncSocket

FINISHED = 1000
EXITED = (4404, "session exited")
"""How the connection to an exited terminal ends, after its retained output."""
REFUSALS = {
    403: ("ForbiddenError", "this client may not connect to the server's terminals, or its ticket is invalid"),
    404: ("PtyNotFoundError", "there is no such terminal in this Location"),
}


class _CursorMessage(msgspec.Struct):
    cursor: int


class _Reader:
    """Tracks how far the output was read, in UTF-16 units as on the server."""

    cursor: int | None = None
    """The position for a later `connect`; None until the retained output was read."""

    def _output(self, message: str | bytes) -> str | None:
        """The output in a message, or None for a cursor message."""
        if isinstance(message, str):
            if self.cursor is not None:
                self.cursor += len(message.encode("utf-16-le")) // 2
            return message
        try:
            self.cursor = decoder(_CursorMessage).decode(message[1:]).cursor
        except msgspec.DecodeError as error:
            raise ClientError("MalformedResponse", f"not a message of a terminal: {error}") from error
        return None


class PtySocket(_Reader):
    """Iterate over the output; it ends with the terminal. Closing the socket earlier leaves the terminal running.
    Raises ClientError if the connection ends in any other way."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket

    async def write(self, text: str) -> None:
        """Send input to the terminal."""
        try:
            await self._socket.send(text)
        except SocketClosed as closed:
            raise _broken(closed) from closed

    async def close(self) -> None:
        await self._socket.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        try:
            while (output := self._output(await self._socket.receive())) is None:
                pass
        except SocketClosed as closed:
            if _finished(closed):
                raise StopAsyncIteration from None
            raise _broken(closed) from closed
        return output

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class SyncPtySocket(_Reader):
    """Like `PtySocket`, for blocking code."""

    def __init__(self, socket: SyncSocket) -> None:
        self._socket = socket

    def write(self, text: str) -> None:
        """Send input to the terminal."""
        try:
            self._socket.send(text)
        except SocketClosed as closed:
            raise _broken(closed) from closed

    def close(self) -> None:
        self._socket.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        try:
            while (output := self._output(self._socket.receive())) is None:
                pass
        except SocketClosed as closed:
            if _finished(closed):
                raise StopIteration from None
            raise _broken(closed) from closed
        return output

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def refusal(operation: Operation[Any], refused: SocketRefused) -> Exception:
    """The error for a refused WebSocket. Some refusals have no body."""
    if not refused.body and refused.status in REFUSALS:
        code, message = REFUSALS[refused.status]
        return received(code, refused.status, {"_tag": code, "message": message})
    return response_error(operation, refused.status, refused.content_type, refused.body)


def _finished(closed: SocketClosed) -> bool:
    return closed.code == FINISHED or (closed.code, closed.reason) == EXITED


def _broken(closed: SocketClosed) -> ClientError:
    return ClientError("Transport", f"the connection to the terminal was {closed}")
