"""One connection: requests and notifications in both directions, any number of them under way.

Invariants
- Every call ends: with its result, with one McpError, or by cancellation. A call that ends without an answer is
  cancelled at the other side.
- Nothing is queued: a message is handled when it arrives, and requests of the other side that are being answered are
  bounded.
- Every task belongs to the connection and has ended when `close` returns."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.mcp.callbacks import tell
from holdfast.mcp.errors import McpError, ProtocolError, RpcError, ServerClosed, Timeout, shown
from holdfast.mcp.messages import (
    INTERNAL_ERROR,
    Answer,
    Malformed,
    Notification,
    Request,
    RequestId,
    answered_id,
    read_batch,
    read_message,
    write_error,
    write_notification,
    write_request,
    write_result,
)
from holdfast.mcp.results import Progress
from holdfast.mcp.transport import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from holdfast.mcp.transport import Transport

REQUEST_LIMIT = 64
"""Of requests of the other side that are being answered. One that sends more does not wait for answers."""
CANCELLED = "notifications/cancelled"
"""The notification that cancels a request, in either direction."""
CANCEL_SECONDS = 5.0
"""How long a notification about a cancelled call may take."""
CLOSE_SECONDS = 5.0
"""How long handlers may take to end after their cancellation."""

log = logging.getLogger(__name__)


class IncomingRequest(msgspec.Struct, frozen=True):
    """`answering` is the id of our own call in whose answer the request came, if that is known."""

    id: RequestId
    method: str
    params: msgspec.Raw
    answering: int | None


class Peer(Protocol):
    """Handles what the other side sends."""

    async def on_request(self, request: IncomingRequest) -> Any:
        """The result. Raises RpcError to answer with an error. Cancelled if the other side cancels the request."""

    def on_notification(self, method: str, params: msgspec.Raw) -> None:
        """Must return quickly. Progress and cancellation are not passed on."""

    def on_garbage(self, data: bytes) -> None:
        """Bytes that are no message."""

    def on_closed(self, error: McpError) -> None:
        """Called once."""


class _Progress(msgspec.Struct, rename="camel"):
    progress_token: RequestId
    progress: float
    total: float | None = None
    message: str | None = None


class _Cancelled(msgspec.Struct, rename="camel"):
    request_id: RequestId


class _Call:
    def __init__(self, on_progress: Callable[[Progress], None] | None, key: str | None) -> None:
        self.answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self.on_progress = on_progress
        self.key = key


class Connection:
    def __init__(
        self,
        transport: Transport,
        peer: Peer,
        *,
        request_limit: int = REQUEST_LIMIT,
        cancel_method: str = CANCELLED,
        cancelled_code: int | None = None,
    ) -> None:
        """`cancel_method` is the notification that cancels a request: other protocols on JSON-RPC name it otherwise. A
        request that the other side has cancelled gets no answer, or with `cancelled_code` an error of this code."""
        self.transport = transport
        self._request_limit = request_limit
        self._cancel_method = cancel_method
        self._cancelled_code = cancelled_code
        self.batches = False
        """Whether a message may be an array of messages."""
        self.calls_may_be_cancelled = False
        """Whether the other side may cancel a call that was made to it."""
        self.strays = 0
        """Answers to no call that waits, and requests whose id is in use."""
        self._peer = peer
        self._calls: dict[int, _Call] = {}
        self._answering: dict[RequestId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_id = 0
        self._end: McpError | None = None

    @property
    def end(self) -> McpError | None:
        """Why the connection ended; None while it is open."""
        return self._end

    async def start(self) -> None:
        await self.transport.start(self)

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        seconds: float | None,
        headers: Mapping[str, str] | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        key: str | None = None,
        repeatable: bool = True,
        cancellable: bool = True,
        on_sent: Callable[[int], None] | None = None,
    ) -> msgspec.Raw:
        """The undecoded result. Raises McpError. `key` names the call for requests that come in its course; `on_sent`
        is called with the id of the request before it is sent."""
        self._check_open()
        self._last_id = id = self._last_id + 1
        if on_progress is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": id}}
        frame = _encoded(method, write_request, id, method, params)
        call = self._calls[id] = _Call(on_progress, key)
        if on_sent is not None:
            on_sent(id)
        try:
            async with asyncio.timeout(seconds) as limit:
                await self.transport.send(frame, Route(method, id, headers or {}, repeatable))
                return await call.answer
        except TimeoutError as error:
            if cancellable:
                self._cancel(id, "no answer in time")
            if not limit.expired():
                raise
            raise Timeout(method, seconds or 0.0) from error
        except asyncio.CancelledError:
            if cancellable:
                self._cancel(id, "the call was interrupted")
            raise
        except McpError:
            self._check_open()  # the end of the connection explains more
            raise
        finally:
            del self._calls[id]
            if call.answer.done() and not call.answer.cancelled():
                call.answer.exception()  # an error that nobody waits for is not reported by the loop

    async def notify(self, method: str, params: Any = None) -> None:
        self._check_open()
        await self.transport.send(_encoded(method, write_notification, method, params), Route(method))

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task that `close` ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def keys(self, answering: int | None) -> tuple[str, ...]:
        """The keys of the calls that a request of the other side can belong to."""
        calls = [self._calls[answering]] if answering in self._calls else self._calls.values()
        return tuple(call.key for call in calls if call.key is not None)

    async def close(self, reason: str = "The connection was closed") -> None:
        self.closed(ServerClosed(reason))
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        finally:
            await self.transport.close()

    def _check_open(self) -> None:
        if self._end is not None:
            raise _again(self._end)

    # -- for the transport -----------------------------------------------------------------------------------------

    def received(self, frame: bytes, answering: int | None = None) -> bool:
        try:
            if self.batches and frame.lstrip()[:1] == b"[":
                for part in read_batch(frame):
                    self._handle(part, answering)
            else:
                self._handle(frame, answering)
        except Malformed as error:
            tell(self._peer.on_garbage, frame)
            if (id := answered_id(frame)) is not None:  # its call would wait for nothing
                self.failed(id, ProtocolError(f"The answer cannot be read: {shown(str(error))}"))
            return False
        except ProtocolError as error:
            if answering is None or not self.failed(answering, error):
                self.closed(error)
        return True

    def failed(self, id: int, error: McpError) -> bool:
        call = self._calls.get(id)
        if call is None or call.answer.done():
            return False
        call.answer.set_exception(error)
        return True

    def waits(self, id: int) -> bool:
        return id in self._calls and not self._calls[id].answer.done()

    def closed(self, error: McpError) -> None:
        if self._end is not None:
            return
        self._end = error
        for id in list(self._calls):
            self.failed(id, _again(error))
        for task in list(self._answering.values()):
            task.cancel()
        tell(self._peer.on_closed, error)

    # -- messages --------------------------------------------------------------------------------------------------

    def _handle(self, frame: bytes | msgspec.Raw, answering: int | None) -> None:
        match read_message(frame):
            case Answer(id, result, error):
                self._settle(answering if id is None else id, result, error)
            case Notification("notifications/progress", params):
                self._progressed(params)
            case Notification(method, params) if method == self._cancel_method:
                self._cancelled(params)
            case Notification(method, params):
                tell(self._peer.on_notification, method, params)
            case Request() as request:
                self._begin(request, answering)

    def _settle(self, id: RequestId | None, result: msgspec.Raw | None, error: McpError | None) -> None:
        call = self._calls.get(id) if isinstance(id, int) else None
        if call is None or call.answer.done():
            self.strays += 1
        elif result is not None:
            call.answer.set_result(result)
        else:
            call.answer.set_exception(error or ProtocolError("an answer without result and error"))

    def _progressed(self, params: msgspec.Raw) -> None:
        try:
            progress = msgspec.json.decode(params, type=_Progress)
        except (ValueError, RecursionError):
            return
        token = progress.progress_token
        call = self._calls.get(token) if isinstance(token, int) else None
        if call is not None and call.on_progress is not None and not call.answer.done():
            tell(call.on_progress, Progress(progress.progress, progress.total, progress.message))

    def _cancelled(self, params: msgspec.Raw) -> None:
        try:
            id = msgspec.json.decode(params, type=_Cancelled).request_id
        except (ValueError, RecursionError):
            return
        if id in self._answering:
            self._answering[id].cancel()
        elif self.calls_may_be_cancelled and isinstance(id, int):
            self.failed(id, ServerClosed("The other side has cancelled the request"))

    def _begin(self, request: Request, answering: int | None) -> None:
        if self._end is not None:
            return
        if request.id in self._answering:
            self.strays += 1
            return
        if len(self._answering) >= self._request_limit:
            reason = f"The other side sent {self._request_limit} requests without waiting for an answer"
            self.closed(ProtocolError(reason))
            return
        incoming = IncomingRequest(request.id, request.method, request.params, answering)
        self._answering[request.id] = self.run(self._answer(incoming))

    async def _answer(self, request: IncomingRequest) -> None:
        try:
            try:
                frame = write_result(request.id, await self._peer.on_request(request))
            except RpcError as error:
                frame = write_error(request.id, error.code, error.message, error.data)
            except asyncio.CancelledError:
                if self._cancelled_code is not None and self._end is None:
                    with suppress(McpError):
                        frame = write_error(request.id, self._cancelled_code, "The request was cancelled")
                        await self.transport.send(frame, Route())
                raise
            except Exception:
                log.exception("a request of an MCP peer could not be answered: %s", request.method[:100])
                frame = write_error(request.id, INTERNAL_ERROR, "Internal error")
            with suppress(McpError):  # the connection has ended, or this answer cannot be delivered
                await self.transport.send(frame, Route())
        finally:
            del self._answering[request.id]

    def _cancel(self, id: int, reason: str) -> None:
        if self._end is None and not self.transport.cancels_by_closing:
            self.run(self._notify_cancelled({"requestId": id, "reason": reason}))

    async def _notify_cancelled(self, params: dict[str, Any]) -> None:
        with suppress(McpError, TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await self.notify(self._cancel_method, params)


def _encoded(method: str, write: Callable[..., bytes], *parts: Any) -> bytes:
    try:
        return write(*parts)
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"{method} cannot be sent: {error}") from error


def _again(error: McpError) -> McpError:
    """The same error, to be raised in another place: an exception collects every place where it is raised."""
    new = error.__class__.__new__(error.__class__, *error.args)
    new.__dict__.update(error.__dict__)
    return new
