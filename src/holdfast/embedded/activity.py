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
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
    from typing import Any

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.core.session.activity import Activity
    from holdfast.embedded.piece_maker import PieceMaker
    from holdfast.embedded.pieces import Piece
    from holdfast.schema.prompt import Admission
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
        self._queue: asyncio.Queue[_Received | _ConnectionLost | _SessionIdle | Exception] = asyncio.Queue(AHEAD)
        self._live_begun = asyncio.Event()
        self.idle = False
        """Whether the Session was idle at the end. Otherwise the work was seen to end, and other work may follow."""

    async def pieces(self, admit: Callable[[], Coroutine[Any, Any, Admission]]) -> AsyncGenerator[Piece, None]:
        """Subscribe, admit the prompt, and yield pieces until the work on it has ended."""
        tasks: set[asyncio.Task[None]] = set()
        try:
            if self._live:
                tasks.add(reading := self._start(self._read()))
                await self._subscribed(reading)
            admission = await admit()
            self._maker.expect(admission.id, admission.admitted_seq)
            if not self._live:
                tasks.add(self._start(self._read()))
            tasks.add(self._start(self._wait()))
            while not isinstance(item := await self._queue.get(), _SessionIdle):
                if isinstance(item, Exception):
                    raise item
                if isinstance(item, _ConnectionLost):
                    self._maker.connection_lost()
                    continue
                for piece in self._maker.take(item.event, live_begun=item.live_begun):
                    yield piece
                if self._maker.next_began or (self._maker.may_be_over and await self._is_over()):
                    return
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
        self.idle = True
        async with aclosing(self._catch_up()) as rest:
            async for piece in rest:
                yield piece

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

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._guarded(work), name=f"holdfast-answer {self._session_id}")

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
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

    async def _wait(self) -> None:
        await self._client.sessions.wait(self._session_id)
        await self._queue.put(_SessionIdle())
