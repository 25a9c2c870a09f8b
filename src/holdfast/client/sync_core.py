"""What every operation of the synchronous client does: send, read, close."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

from holdfast.client.call import FRAME_LIMIT, Operation, decode, expect_stream, failure, outcome, request
from holdfast.client.errors import ClientError
from holdfast.schema.sse import FrameTooLarge, SSEFrames

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import TracebackType

    from holdfast.client.transport import Request, SyncTransport

T = TypeVar("T")


class SyncStream(Iterator[T]):
    """Elements of a streamed answer. Nothing happens before the first is asked for; each `for` is a request of its
    own, and leaving it closes that. After a `next` the stream keeps that iteration; `close` closes all."""

    def __init__(self, start: Callable[[], Generator[T, None, None]]) -> None:
        self._start = start
        self._kept: Generator[T, None, None] | None = None
        self._open: weakref.WeakSet[Generator[T, None, None]] = weakref.WeakSet()

    def __iter__(self) -> Generator[T, None, None]:
        if self._kept is not None:
            return self._kept
        iteration = self._start()
        self._open.add(iteration)
        return iteration

    def __next__(self) -> T:
        if self._kept is None:
            self._kept = iter(self)
        return next(self._kept)

    def close(self) -> None:
        for iteration in tuple(self._open):
            iteration.close()

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

    def stream(self, operation: Operation[T], **given: Any) -> SyncStream[T]:
        asked = request(operation, self._headers, **given)
        return SyncStream(lambda: self._elements(operation, asked))

    def _elements(self, operation: Operation[T], asked: Request) -> Generator[T, None, None]:
        response = self.transport.send(asked)
        try:
            if response.status != 200:
                raise failure(operation, response.status, response.content_type, response.read())
            expect_stream(response.status, response.content_type)
            frames = SSEFrames(FRAME_LIMIT)
            for chunk in response.chunks():
                for frame in frames.feed(chunk):
                    yield decode(operation.kind, frame)
            for frame in frames.finish():
                yield decode(operation.kind, frame)
        except FrameTooLarge as error:
            raise ClientError("MalformedResponse", str(error)) from error
        finally:
            response.close()
