"""Holdfast for scripts and notebooks: the same host, driven from ordinary code, also where a loop already runs.

with HoldfastSync("/path/to/project") as hf:
    print(hf.run("What is in README.md?", model="local/qwen").text)
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from holdfast.client.errors import ClientError
from holdfast.client.generated.sync_client import Client
from holdfast.client.transport import NO_SOCKETS, SocketTransport
from holdfast.embedded.holdfast import OPEN, Holdfast
from holdfast.embedded.loop_thread import LoopThread
from holdfast.embedded.structured_sync import HostSessionsSync
from holdfast.embedded.tools import HostContext, HostTools

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
    from os import PathLike
    from typing import Unpack

    from holdfast.client.transport import AsyncTransport, Request, Response, Socket
    from holdfast.core.context.source import Source
    from holdfast.core.event.log import Mismatch
    from holdfast.core.tool.tool import Tool
    from holdfast.embedded.answer import Answer
    from holdfast.embedded.attendant import FormCallback, PermissionCallback, QuestionCallback
    from holdfast.embedded.pieces import Piece
    from holdfast.embedded.prompting import PromptSettings, RunOptions
    from holdfast.embedded.settings import HoldfastSettings
    from holdfast.schema.model import ModelRef
    from holdfast.schema.prompt import PromptInput
    from holdfast.schema.session import Session


T = TypeVar("T")

AHEAD = 64
"""Pieces of a stream that are read before a reader asks for them."""


class HoldfastSync(Client):
    """The generated synchronous client over a runtime in a thread of its own."""

    def __init__(self, directory: str | PathLike[str] | None = None, **settings: Unpack[HoldfastSettings]) -> None:
        """As `Holdfast`."""
        self._host = Holdfast(directory, **settings)
        self._thread = LoopThread()
        self.tools = self.tool = HostTools(self._add_tools)
        self.context = HostContext(self._add_context)
        super().__init__(BridgedTransport(self._host._transport, self._thread))
        self.sessions: HostSessionsSync = HostSessionsSync(self.sessions._core)

    def __enter__(self) -> Self:
        if self._thread.running:
            raise RuntimeError(OPEN)
        self._thread.start()
        try:
            self._thread.run(self._host.__aenter__())
        except Exception:
            self._thread.close()
            raise
        return self

    def close(self) -> None:
        if not self._thread.running:
            return
        try:
            self._thread.run(self._host.close())
        finally:
            self._thread.close()

    def run(self, prompt: PromptInput | str, **options: Unpack[RunOptions]) -> Answer:
        """As of `Holdfast`."""
        return self._thread.run(self._host.run(prompt, **options))

    @overload
    def ask(
        self,
        prompt: PromptInput | str,
        *,
        into: type[T],
        retry_count: int | None = None,
        **options: Unpack[RunOptions],
    ) -> T: ...

    @overload
    def ask(
        self,
        prompt: PromptInput | str,
        *,
        into: dict[str, Any],
        retry_count: int | None = None,
        **options: Unpack[RunOptions],
    ) -> Any: ...

    def ask(
        self, prompt: PromptInput | str, *, into: Any, retry_count: int | None = None, **options: Unpack[RunOptions]
    ) -> Any:
        """As of `Holdfast`."""
        return self._thread.run(self._host.ask(prompt, into=into, retry_count=retry_count, **options))

    def stream(
        self, session: Session | str, prompt: PromptInput | str, **settings: Unpack[PromptSettings]
    ) -> Generator[Piece, None, None]:
        """As of `Holdfast`. Closing the generator, or leaving it to the collector, is to stop reading."""
        pieces = self._host.stream(session, prompt, **settings)
        return self._pieces(pieces)

    def on_permission(
        self, callback: PermissionCallback, *, session: Session | str | None = None
    ) -> Callable[[], None]:
        """As of `Holdfast`. An ordinary function is called in a thread of its own, and may use this host."""
        return self._added(lambda: self._host.on_permission(callback, session=session))

    def on_question(self, callback: QuestionCallback, *, session: Session | str | None = None) -> Callable[[], None]:
        """As of `Holdfast`. An ordinary function is called in a thread of its own, and may use this host."""
        return self._added(lambda: self._host.on_question(callback, session=session))

    def on_form(self, callback: FormCallback, *, session: Session | str | None = None) -> Callable[[], None]:
        """As of `Holdfast`. An ordinary function is called in a thread of its own, and may use this host."""
        return self._added(lambda: self._host.on_form(callback, session=session))

    def default_model(self) -> ModelRef | None:
        """The model that a Session without one would use here."""
        return self._thread.run(self._host.default_model())

    def reload(self) -> tuple[str, ...]:
        """Read the configuration of every project that is open here again; what could not be taken over."""
        return self._thread.run(self._host.reload())

    def describe_store(self) -> str:
        """Where Sessions are stored, in one line without secrets."""
        return self._thread.run(self._host.describe_store())

    def verify(self) -> list[Mismatch]:
        """Projection rows that differ from what the event log says; empty when all is well."""
        return self._thread.run(self._host.verify())

    def rebuild(self) -> int:
        """Project every Session anew from the event log; how many there were."""
        return self._thread.run(self._host.rebuild())

    def _pieces(self, pieces: AsyncGenerator[Piece, None]) -> Generator[Piece, None, None]:
        async def following() -> Piece | None:
            return await anext(pieces, None)

        async def close() -> None:
            with suppress(RuntimeError):  # a read that was cancelled is still ending it
                await pieces.aclose()

        try:
            while (piece := self._thread.run(following())) is not None:
                yield piece
        finally:
            self._thread.post(close())

    def _add_tools(self, tools: Mapping[str, Tool[Any, Any]]) -> Callable[[], None]:
        return self._added(lambda: self._host.tools.register(tools))

    def _add_context(self, source: Source[Any]) -> Callable[[], None]:
        return self._added(lambda: self._host.context.register(source))

    def _added(self, add: Callable[[], Callable[[], None]]) -> Callable[[], None]:
        remove = self._thread.call(add)
        return lambda: self._thread.call(remove)


class BridgedTransport:
    """An asynchronous transport, used from outside its loop."""

    def __init__(self, transport: AsyncTransport, thread: LoopThread) -> None:
        self._transport = transport
        self._thread = thread

    def send(self, request: Request) -> BridgedResponse:
        return BridgedResponse(self._thread.run(self._transport.send(request)), self._thread)

    def open_socket(self, request: Request) -> BridgedSocket:
        if not isinstance(self._transport, SocketTransport):
            raise ClientError("Transport", NO_SOCKETS)
        return BridgedSocket(self._thread.run(self._transport.open_socket(request)), self._thread)

    def close(self) -> None:
        self._thread.run(self._transport.close())


class BridgedResponse:
    def __init__(self, response: Response, thread: LoopThread) -> None:
        self._response = response
        self._thread = thread
        self.status = response.status
        self.content_type = response.content_type

    def read(self) -> bytes:
        return self._thread.run(self._response.read())

    def chunks(self) -> Iterator[bytes]:
        ahead = _ReadAhead(self._response.chunks())
        reading = self._thread.begin(ahead.read())
        try:
            while chunk := ahead.next():
                yield chunk
                if ahead.full:
                    self._thread.post(ahead.go_on())
        finally:
            reading.cancel()

    def close(self) -> None:
        # Also run by the collector, in whatever thread it likes, so it cannot wait.
        self._thread.post(self._response.close())


class BridgedSocket:
    def __init__(self, socket: Socket, thread: LoopThread) -> None:
        self._socket = socket
        self._thread = thread

    def receive(self) -> str | bytes:
        return self._thread.run(self._socket.receive())

    def send(self, text: str) -> None:
        self._thread.run(self._socket.send(text))

    def close(self) -> None:
        self._thread.post(self._socket.close())


class _ReadAhead:
    """Reads a stream in the host's loop for a reader in another thread. What arrived before the host closed, its last
    event among it, reaches the reader also when the host closes between two of its reads."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._received: SimpleQueue[bytes | Exception] = SimpleQueue()
        self._room = asyncio.Event()
        self.full = False

    async def read(self) -> None:
        try:
            async for chunk in self._chunks:
                self._received.put(chunk)
                if self._received.qsize() >= AHEAD:
                    self._room.clear()
                    self.full = True
                    if not self._received.empty():  # the reader, who has yet to take one, sees `full` after that
                        await self._room.wait()
                    self.full = False
        except Exception as error:  # noqa: BLE001 - the reader's, in its own thread
            self._received.put(error)
        finally:
            self._received.put(b"")

    async def go_on(self) -> None:
        self._room.set()

    def next(self) -> bytes:
        """Empty at the end."""
        received = self._received.get()
        if isinstance(received, Exception):
            raise received
        return received
