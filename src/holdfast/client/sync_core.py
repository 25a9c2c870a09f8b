"""What every operation of the synchronous client does: send, read, close."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

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
from holdfast.client.transport import NO_SOCKETS, SocketRefused, SyncSocketTransport
from holdfast.schema.sse import FrameTooLarge, SSEFrames

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import TracebackType

    from holdfast.client.terminal import SyncPtySocket
    from holdfast.client.transport import Request, SyncResponse, SyncTransport

T = TypeVar("T")


class Cut:
    """Ends an iteration from outside, by taking its response away."""

    def __init__(self) -> None:
        self.made = False
        self.response: SyncResponse | None = None

    def make(self) -> None:
        self.made = True
        if self.response is not None:
            self.response.close()


class SyncStream(Iterator[T]):
    """Elements of a streamed answer. Nothing happens before the first is asked for; each `for` is a request of its
    own, and leaving it closes that. After a `next` the stream keeps that iteration; `close` closes all, also those in
    which another thread is waiting: there the elements just end."""

    def __init__(self, start: Callable[[Cut], Generator[T, None, None]]) -> None:
        self._start = start
        self._kept: Generator[T, None, None] | None = None
        self._open: weakref.WeakKeyDictionary[Generator[T, None, None], Cut] = weakref.WeakKeyDictionary()

    def __iter__(self) -> Generator[T, None, None]:
        if self._kept is not None:
            return self._kept
        cut = Cut()
        iteration = self._start(cut)
        self._open[iteration] = cut
        return iteration

    def __next__(self) -> T:
        if self._kept is None:
            self._kept = iter(self)
        return next(self._kept)

    def close(self) -> None:
        for iteration, cut in tuple(self._open.items()):
            try:
                iteration.close()
            except ValueError:  # another thread is inside
                cut.make()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncCore:
    def __init__(self, transport: SyncTransport, headers: Mapping[str, str] | None = None) -> None:
        self.transport = transport
        self._headers = dict(headers or {})

    def call(self, operation: Operation[T], **given: Any) -> T:
        response = self.transport.send(request(operation, self._headers, **given))
        try:
            body = b"" if response.status == 204 else response.read()
        finally:
            response.close()
        return outcome(operation, response.status, response.content_type, body)

    def connect(self, operation: Operation[T], **given: Any) -> SyncPtySocket:
        from holdfast.client.terminal import SyncPtySocket, refusal

        if not isinstance(self.transport, SyncSocketTransport):
            raise ClientError("Transport", NO_SOCKETS)
        try:
            return SyncPtySocket(self.transport.open_socket(request(operation, self._headers, **given)))
        except SocketRefused as refused:
            raise refusal(operation, refused) from refused

    def stream(self, operation: Operation[T], **given: Any) -> SyncStream[T]:
        asked = request(operation, self._headers, **given)
        options = given.get("options") or Options()
        return SyncStream(lambda cut: self._elements(operation, asked, options, cut))

    def _elements(
        self, operation: Operation[T], asked: Request, options: Options, cut: Cut
    ) -> Generator[T, None, None]:
        response = cut.response = self.transport.send(asked)
        try:
            if cut.made:
                return
            if response.status != 200:
                raise failure(operation, response.status, response.content_type, response.read())
            expect_stream(response.status, response.content_type)
            if options.on_open is not None:
                options.on_open()
            frames = SSEFrames(FRAME_LIMIT)
            heartbeats = Heartbeats(frames, options)
            for chunk in response.chunks():
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
            response.close()
