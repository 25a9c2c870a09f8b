"""Sends the operations of the asynchronous client and reads their responses."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.client.call import Operation, Options, StreamDecoder, decode_response, request, response_error
from holdfast.client.errors import ClientError
from holdfast.client.transport import NO_SOCKETS, SocketRefused, SocketTransport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from holdfast.client.terminal import PtySocket
    from holdfast.client.transport import AsyncTransport, Request, Response

T = TypeVar("T")


class StreamCloser:
    """Ends an iteration from outside by closing its response."""

    def __init__(self) -> None:
        self.closed = False
        self.response: Response | None = None

    async def close(self) -> None:
        self.closed = True
        if self.response is not None:
            await self.response.close()


class Stream(AsyncIterator[T]):
    """Elements of a streamed response. Each `async for` sends its own request when its first element is needed, and
    closes it at the end. After an `anext` the stream keeps that iteration. `aclose` closes all iterations; one that
    another task is waiting in simply ends."""

    def __init__(self, start: Callable[[StreamCloser], AsyncGenerator[T, None]]) -> None:
        self._start = start
        self._kept: AsyncGenerator[T, None] | None = None
        self._open: weakref.WeakKeyDictionary[AsyncGenerator[T, None], StreamCloser] = weakref.WeakKeyDictionary()

    def __aiter__(self) -> AsyncGenerator[T, None]:
        if self._kept is not None:
            return self._kept
        closer = StreamCloser()
        iteration = self._start(closer)
        self._open[iteration] = closer
        return iteration

    async def __anext__(self) -> T:
        if self._kept is None:
            self._kept = aiter(self)
        return await anext(self._kept)

    async def aclose(self) -> None:
        for iteration, closer in tuple(self._open.items()):
            try:
                await iteration.aclose()
            except RuntimeError:  # another task is running it
                await closer.close()
        import asyncio  # already imported by the running loop; at module level it would load TLS on start-up

        # The loop closes an abandoned iteration within its next two turns.
        for _ in range(2):
            await asyncio.sleep(0)


class AsyncCore:
    def __init__(self, transport: AsyncTransport, headers: Mapping[str, str] | None = None) -> None:
        self.transport = transport
        self._headers = dict(headers or {})

    async def call(self, operation: Operation[T], **given: Any) -> T:
        response = await self.transport.send(request(operation, self._headers, **given))
        try:
            body = b"" if response.status == 204 else await response.read()
        finally:
            await response.close()
        return decode_response(operation, response.status, response.content_type, body)

    async def connect(self, operation: Operation[T], **given: Any) -> PtySocket:
        from holdfast.client.terminal import PtySocket, refusal

        if not isinstance(self.transport, SocketTransport):
            raise ClientError("Transport", NO_SOCKETS)
        try:
            return PtySocket(await self.transport.open_socket(request(operation, self._headers, **given)))
        except SocketRefused as refused:
            raise refusal(operation, refused) from refused

    def stream(self, operation: Operation[T], **given: Any) -> Stream[T]:
        asked = request(operation, self._headers, **given)
        options = given.get("options") or Options()
        return Stream(lambda closer: self._elements(operation, asked, options, closer))

    async def _elements(
        self, operation: Operation[T], asked: Request, options: Options, closer: StreamCloser
    ) -> AsyncGenerator[T, None]:
        response = closer.response = await self.transport.send(asked)
        try:
            if closer.closed:
                return
            if response.status != 200:
                raise response_error(operation, response.status, response.content_type, await response.read())
            decoder = StreamDecoder(operation, response.content_type, options)
            async with aclosing(response.chunks()) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    for element in decoder.feed(chunk):
                        yield element
            for element in decoder.finish():
                yield element
        except ClientError:
            if not closer.closed:
                raise
        finally:
            await response.close()
