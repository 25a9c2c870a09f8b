"""What every operation of the asynchronous client does: send, read, close."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.client.call import (
    FRAME_LIMIT,
    Heartbeats,
    Operation,
    Options,
    element,
    expect_stream,
    failure,
    outcome,
    request,
)
from holdfast.client.errors import ClientError
from holdfast.client.transport import NO_SOCKETS, SocketRefused, SocketTransport
from holdfast.schema.sse import FrameTooLarge, SSEFrames

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from holdfast.client.terminal import PtySocket
    from holdfast.client.transport import AsyncTransport, Request, Response

T = TypeVar("T")


class Cut:
    """Ends an iteration from outside, by taking its response away."""

    def __init__(self) -> None:
        self.made = False
        self.response: Response | None = None

    async def make(self) -> None:
        self.made = True
        if self.response is not None:
            await self.response.close()


class Stream(AsyncIterator[T]):
    """Elements of a streamed answer. Nothing happens before the first is asked for; each `async for` is a request of
    its own, and leaving it closes that. After an `anext` the stream keeps that iteration; `aclose` closes all, also
    those in which another task is waiting: there the elements just end."""

    def __init__(self, start: Callable[[Cut], AsyncGenerator[T, None]]) -> None:
        self._start = start
        self._kept: AsyncGenerator[T, None] | None = None
        self._open: weakref.WeakKeyDictionary[AsyncGenerator[T, None], Cut] = weakref.WeakKeyDictionary()

    def __aiter__(self) -> AsyncGenerator[T, None]:
        if self._kept is not None:
            return self._kept
        cut = Cut()
        iteration = self._start(cut)
        self._open[iteration] = cut
        return iteration

    async def __anext__(self) -> T:
        if self._kept is None:
            self._kept = aiter(self)
        return await anext(self._kept)

    async def aclose(self) -> None:
        for iteration, cut in tuple(self._open.items()):
            try:
                await iteration.aclose()
            except RuntimeError:  # another task is inside
                await cut.make()
        import asyncio  # the loop is running, so this is only a name; a cold import would bring the whole of TLS

        # One that was just left behind is closed by the loop itself, within its next two turns.
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
        return outcome(operation, response.status, response.content_type, body)

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
        return Stream(lambda cut: self._elements(operation, asked, options, cut))

    async def _elements(
        self, operation: Operation[T], asked: Request, options: Options, cut: Cut
    ) -> AsyncGenerator[T, None]:
        response = cut.response = await self.transport.send(asked)
        try:
            if cut.made:
                return
            if response.status != 200:
                raise failure(operation, response.status, response.content_type, await response.read())
            expect_stream(response.status, response.content_type)
            if options.on_open is not None:
                options.on_open()
            frames = SSEFrames(FRAME_LIMIT)
            heartbeats = Heartbeats(frames, options)
            async with aclosing(response.chunks()) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    for frame in frames.feed(chunk):
                        yield element(frame)  # type: ignore[misc]
                    heartbeats.tell()
            for frame in frames.finish():
                yield element(frame)  # type: ignore[misc]
        except FrameTooLarge as error:
            raise ClientError("MalformedResponse", str(error)) from error
        except ClientError:
            if not cut.made:
                raise
        finally:
            await response.close()
