"""Sends the operations of the synchronous client and reads their responses."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

from holdfast.client.call import Operation, Options, StreamDecoder, decode_response, request, response_error
from holdfast.client.errors import ClientError
from holdfast.client.transport import NO_SOCKETS, SocketRefused, SyncSocketTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import TracebackType

    from holdfast.client.terminal import SyncPtySocket
    from holdfast.client.transport import Request, SyncResponse, SyncTransport

T = TypeVar("T")


class SyncStreamCloser:
    """Ends an iteration from outside by closing its response."""

    def __init__(self) -> None:
        self.closed = False
        self.response: SyncResponse | None = None

    def close(self) -> None:
        self.closed = True
        if self.response is not None:
            self.response.close()


class SyncStream(Iterator[T]):
    """Elements of a streamed response. Each `for` sends its own request when its first element is needed, and closes it
    at the end. After a `next` the stream keeps that iteration. `close` closes all iterations; one that another thread
    is waiting in simply ends."""

    def __init__(self, start: Callable[[SyncStreamCloser], Generator[T, None, None]]) -> None:
        self._start = start
        self._kept: Generator[T, None, None] | None = None
        self._open: weakref.WeakKeyDictionary[Generator[T, None, None], SyncStreamCloser] = weakref.WeakKeyDictionary()

    def __iter__(self) -> Generator[T, None, None]:
        if self._kept is not None:
            return self._kept
        closer = SyncStreamCloser()
        iteration = self._start(closer)
        self._open[iteration] = closer
        return iteration

    def __next__(self) -> T:
        if self._kept is None:
            self._kept = iter(self)
        return next(self._kept)

    def close(self) -> None:
        for iteration, closer in tuple(self._open.items()):
            try:
                iteration.close()
            except ValueError:  # another thread is running it
                closer.close()

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
        return decode_response(operation, response.status, response.content_type, body)

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
        return SyncStream(lambda closer: self._elements(operation, asked, options, closer))

    def _elements(
        self, operation: Operation[T], asked: Request, options: Options, closer: SyncStreamCloser
    ) -> Generator[T, None, None]:
        response = closer.response = self.transport.send(asked)
        try:
            if closer.closed:
                return
            if response.status != 200:
                raise response_error(operation, response.status, response.content_type, response.read())
            decoder = StreamDecoder(operation, response.content_type, options)
            for chunk in response.chunks():
                for element in decoder.feed(chunk):
                    yield element
            for element in decoder.finish():
                yield element
        except ClientError:
            if not closer.closed:
                raise
        finally:
            response.close()
