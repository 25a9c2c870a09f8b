"""Follows the work on one prompt, from its admission to its end.

Invariants
- What was recorded decides: the end of the work is read from the log and the Session's activity, and durable events
  that a stream did not deliver are read from the history.
- The events are read in a task of their own, into a bounded queue. A reader that is too slow loses the stream, which is
  opened again after the last durable event.
- Whoever stops reading ends nothing but the reading. The work goes on."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from holdfast.client.call import Options
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
    from typing import Any

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.core.session.activity import Activity
    from holdfast.embedded.piece_maker import PieceMaker
    from holdfast.embedded.pieces import Piece
    from holdfast.schema.form import Form
    from holdfast.schema.permission import PermissionRequest
    from holdfast.schema.prompt import Admission
    from holdfast.schema.question import QuestionRequest
    from holdfast.schema.typed_event import Event

    ActivityOf = Callable[[str], Awaitable[Activity | None]]

AHEAD = 64
"""Events that are read before somebody asks for them."""
PAGE = 100


class _Received(Frozen):
    event: Event
    live_begun: bool


class _ConnectionLost(Frozen):
    pass


class _SessionIdle(Frozen):
    pass


class _OpenRequests(Frozen):
    """Requests to a person that wait in the Session."""

    requests: tuple[PermissionRequest | QuestionRequest | Form, ...]


_Item = _Received | _ConnectionLost | _SessionIdle | _OpenRequests | Exception


class PromptActivity:
    """`live` is whether deltas and other live events are wanted. `activity_of` gives what a Session owes."""

    def __init__(
        self, client: AsyncClient, activity_of: ActivityOf, session_id: str, maker: PieceMaker, *, live: bool
    ) -> None:
        self._client = client
        self._activity_of = activity_of
        self._session_id = session_id
        self._maker = maker
        self._live = live
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(AHEAD)
        self._live_begun = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.idle = False
        """Whether the Session was idle at the end. Otherwise the work was seen to end, and other work may follow."""

    async def pieces(self, admit: Callable[[], Coroutine[Any, Any, Admission]]) -> AsyncGenerator[Piece, None]:
        """Subscribe, admit the prompt, and yield pieces until the work on it has ended."""
        try:
            if self._live:
                await self._subscribed(self._start(self._read))
            admission = await admit()
            self._maker.expect(admission.id, admission.admitted_seq)
            if not self._live:
                self._start(self._read)
            self._start(self._wait)
            while not isinstance(item := await self._queue.get(), _SessionIdle):
                if isinstance(item, Exception):
                    raise item
                for piece in self._taken(item):
                    yield piece
                if self._maker.next_began or (self._maker.may_be_over and await self._is_over()):
                    return
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
        self.idle = True
        async with aclosing(self._catch_up()) as rest:
            async for piece in rest:
                yield piece

    def _taken(self, item: _Received | _ConnectionLost | _OpenRequests) -> Iterable[Piece]:
        match item:
            case _Received(event=event, live_begun=live_begun):
                return self._maker.take(event, live_begun=live_begun)
            case _OpenRequests(requests=requests):
                return self._maker.take_requests(requests)
            case _ConnectionLost():
                self._maker.connection_lost()
                return ()

    async def _is_over(self) -> bool:
        """Whether the newest step was the last one for the prompt. The activity is gone, or of a later input."""
        activity = await self._activity_of(self._session_id)
        return activity is None or self._maker.position is None or activity.seq > self._maker.position

    async def _catch_up(self) -> AsyncGenerator[Piece, None]:
        """The Session is idle: read what the stream did not deliver."""
        more = True
        while more and not self._maker.next_began:
            page = await self._client.sessions.history(self._session_id, after=self._maker.position, limit=PAGE)
            for event in page.events:
                for piece in self._maker.take(event, live_begun=False):
                    yield piece
            more = page.has_more

    # -- tasks ---------------------------------------------------------------------------------------------------

    def _start(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        name = f"holdfast-answer {self._session_id}"
        task = asyncio.get_running_loop().create_task(self._guarded(work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - raised where the pieces are read
            await self._queue.put(error)

    async def _subscribed(self, reading: asyncio.Task[None]) -> None:
        """Wait until live events begin, so that none of the prompt is missed. A failure to connect is in the queue."""
        begun = asyncio.ensure_future(self._live_begun.wait())
        try:
            await asyncio.wait({begun, reading}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            begun.cancel()
        if reading.done() and isinstance(failure := self._queue.get_nowait(), Exception):
            raise failure

    async def _read(self) -> None:
        looking: asyncio.Task[None] | None = None
        while True:
            after = self._maker.position
            stream = self._client.sessions.events(
                self._session_id,
                after=after,
                replay=None if after is not None else False,
                live=self._live or None,
                options=Options(on_heartbeat=self._live_begun.set),
            )
            async with aclosing(aiter(stream)) as events:
                async for event in events:
                    await self._queue.put(_Received(event, self._live_begun.is_set()))
            self._live_begun.clear()
            await self._queue.put(_ConnectionLost())
            if self._live and (looking is None or looking.done()):
                looking = self._start(self._look_for_requests)

    async def _look_for_requests(self) -> None:
        """Their events are live: those that were announced while there was no connection are missed."""
        await self._live_begun.wait()
        permissions = await self._client.permissions.list(self._session_id)
        questions = await self._client.questions.list(self._session_id)
        forms = [form for form in await self._client.forms.list(self._session_id) if form.tool is not None]
        await self._queue.put(_OpenRequests((*permissions, *questions, *forms)))

    async def _wait(self) -> None:
        await self._client.sessions.wait(self._session_id)
        await self._queue.put(_SessionIdle())
