"""Requests to a person: what permission requests, questions and forms have in common.

Requests and answers are durable events of the Session, so that any process on the database can answer.

Invariants
- A request is recorded, announced and watched, or it does not exist. Cancelling the caller cannot separate these.
- A request is answered once: the commit of a second answer is refused.
- Observers get an answer before the waiting caller does, in the process that asked and in the one that answered.
- A request that nobody waits for is closed: its caller was interrupted, or its Session moved. The exception is a tool
  call that waited when its process ended: its request stays open, and is used again when the call is executed again.
  Without a tool call the request ends with its process, unless its kind `outlives` that; after a crash `Recovery`
  closes it.
- The waiting caller takes the answers once, durably and all of them at the same time, before it acts on them."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Statement
from holdfast.core.session.errors import AlreadyAnswered, AlreadyTaken
from holdfast.core.session.stored_activity import OpenRequest, RequestRow, TreeRequestRow
from holdfast.core.work_time import not_working
from holdfast.schema.codec import decoder
from holdfast.schema.exceptions import Conflict, HoldfastError
from holdfast.schema.form import Form
from holdfast.schema.frozen import Frozen
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import QuestionRequest
from holdfast.schema.session_event import RequestTaken

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Sequence

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.event.log import EventLog
    from holdfast.core.event.publisher import Publisher
    from holdfast.core.permission.permission import Unattended
    from holdfast.schema.location import Location
    from holdfast.schema.record import Record

MOST_PENDING = 100
"""Per Session and kind."""

Attended: TypeAlias = "Callable[[str, Sequence[str]], bool]"
"""Gets a Session and its ancestors, root first."""
R = TypeVar("R", PermissionRequest, QuestionRequest, Form)
A = TypeVar("A", bound="Record")
T = TypeVar("T")
log = logging.getLogger(__name__)


class TooManyRequests(HoldfastError):
    """The Session has as many open requests as are allowed."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} already has {MOST_PENDING} open requests; answer some first")
        self.session_id = session_id


class Unreachable(HoldfastError):
    """Nobody can answer here: the Session has moved to another Location, or this one was closed."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"nobody can answer a request of Session {session_id} at this Location")
        self.session_id = session_id


class DuplicateRequest(Conflict):
    """A request with this id exists."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"a request {request_id} exists already", resource=request_id)
        self.request_id = request_id


class Pending(Frozen, Generic[R]):
    request: R
    agent: str | None


class _Open(Frozen, Generic[R, A]):
    request: R
    answer: asyncio.Future[A]
    taken: bool
    """Whether the answer need not be taken: the request is not resumable, or an earlier process took it."""


class RequestServices(Frozen):
    """What the requests of a Location need, whatever their kind."""

    log: EventLog
    database: Database
    ids: Ids
    clock: Clock
    location: Location
    unattended: Unattended = "wait"
    attended: Attended | None = None
    """Whether anybody would see a request that only a preset makes; None is always."""
    wake: Callable[[str], None] = lambda session_id: None
    """Called with the Session of an answered request that no caller here waits for."""
    ending: Callable[[], bool] = lambda: False
    """Whether the process is shutting down."""


class Requests(ABC, Generic[R, A]):
    """The requests of one kind at one Location; a subclass defines the kind."""

    kind: ClassVar[str]
    request_type: type[R]
    answer_type: type[A]
    deleted: A
    """The answer when the Session was deleted meanwhile."""

    def __init__(self, services: RequestServices) -> None:
        location = services.location
        self.unattended: Unattended = services.unattended
        self._attended = services.attended
        self._wake = services.wake
        self._ending = services.ending
        self._log = services.log
        self._database = services.database
        self._ids = services.ids
        self._clock = services.clock
        self._location = location
        self._place: dict[str, Value] = {"directory": location.directory, "workspace_id": location.workspace_id}
        self._watched: dict[str, tuple[R, asyncio.Task[A]]] = {}
        self._ongoing: set[asyncio.Task[Any]] = set()
        self._leaving: dict[str, set[asyncio.Task[None]]] = {}
        self._closed = False

    async def wait(self, request: R, asked: Record) -> A:
        """Make a request and wait for its answer. Cancelling the caller closes the request, durably; in a shutdown that
        of a tool call stays open. A request that the same call made before is used again."""
        ((_, answer),) = await self.wait_all([(request, asked)])
        return answer

    async def wait_all(self, asked: Sequence[tuple[R, Record]], *, used: Collection[str] = ()) -> Sequence[tuple[R, A]]:
        """Make requests of one call, as `wait` does, and wait until all are answered. Those in `used`, by id, are not
        used again. The ids of the requests may be others than those asked for."""
        opening = self._own(self._open_all(asked, used))
        try:
            opened = await asyncio.shield(opening)
            with not_working():
                answers = [await asyncio.shield(found.answer) for found in opened]
        except asyncio.CancelledError:
            first = asked[0][0]
            if self._ending() and self._stays(first):
                raise
            leaving = self._leaving.setdefault(first.session_id, set())
            task = self._own(self._withdraw(opening))
            leaving.add(task)
            task.add_done_callback(leaving.discard)
            raise
        if untaken := [found.request for found in opened if not found.taken]:
            await self.detached(self._take(untaken))
        return [(found.request, answer) for found, answer in zip(opened, answers, strict=True)]

    async def settled(self, session_id: str) -> None:
        """Wait until all cancelled requests of this Session are recorded as closed."""
        while leaving := self._leaving.get(session_id):
            await asyncio.wait(set(leaving))
        self._leaving.pop(session_id, None)

    async def open(self, request: R, asked: Record) -> None:
        """Make a request without waiting for its answer."""
        await self.detached(self._open(request, asked))

    async def settle(self, request: R, asked: Record, answered: Record, answer: A) -> None:
        """Record a request together with its answer."""
        await self.detached(self._settle(request, asked, answered, answer))

    async def answer(
        self, request: R, answered: Record, *, before: Sequence[Statement] = (), local: Sequence[Statement] = ()
    ) -> bool:
        """Record an answer and tell observers; False if the request has an answer."""
        watched = self._watched.get(request.id)
        if not await self._commit(answered, before, local):
            return False
        if watched is not None:  # its watcher sees the answer and tells them
            await asyncio.wait({watched[1]})
        else:
            await self._announce_stored_answer(request)
            self._wake(request.session_id)
        return True

    async def find(self, session_id: str, request_id: str) -> Pending[R] | None:
        """The open request with this id, if it belongs to this Session and this Location."""
        row = await self._look(request_id)
        if row is None or row.session_id != session_id or row.reply is not None or not row.here:
            return None
        return Pending(decoder(self.request_type).decode(row.data), row.agent)

    async def list(self) -> tuple[R, ...]:
        """The open requests of this Location, oldest first."""
        return tuple(found.request for found in await self.pending())

    async def for_session(self, session_id: str) -> tuple[R, ...]:
        """The open requests of a Session at this Location, oldest first."""
        return tuple(found.request for found in await self.pending(session_id))

    async def of_tree(self, session_id: str) -> tuple[R, ...]:
        """The open requests of a Session and of its descendants, at whatever Locations; oldest first."""
        rows = await self._database.fetch("request.open_of_tree", {"session_id": session_id}, into=TreeRequestRow)
        return tuple(decoder(self.request_type).decode(row.data) for row in rows if row.kind == self.kind)

    async def pending(self, session_id: str | None = None) -> Sequence[Pending[R]]:
        """The open requests with their agents, oldest first; of one Session, or of all."""
        if session_id is None:
            rows = await self._database.fetch("request.open_of_location", self._place, into=_OpenRow)
        else:
            key = {"session_id": session_id, **self._place}
            rows = await self._database.fetch("request.open_of_session_there", key, into=_OpenRow)
        return [
            Pending(decoder(self.request_type).decode(row.data), row.agent) for row in rows if row.kind == self.kind
        ]

    async def abandon(
        self, opened: Sequence[OpenRequest], lease: Publisher, keep: Collection[tuple[str, str]] = ()
    ) -> None:
        """Close those of a Session's open requests, of whatever kind, that earlier processes left, except those of the
        calls in `keep`. The commit is fenced, so that it cannot close a request of a newer owner."""
        for row in opened:
            if row.kind != self.kind:
                continue
            request = decoder(self.request_type).decode(row.data)
            call = self.call_of(request)
            if request.id in self._watched or (call is not None and call in keep) or self.outlives(request):
                continue
            try:
                await lease.publish(self.interrupted(request))
            except AlreadyAnswered:
                continue
            await self._announce_stored_answer(request)

    async def detached(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work to its end even if the caller is cancelled."""
        return await asyncio.shield(self._own(work))

    async def close(self) -> None:
        """Close all open requests of this process; in a shutdown those that stay are left for the next process."""
        self._closed = True
        while self._ongoing:
            for request, watching in tuple(self._watched.values()):
                if (self._ending() and self._stays(request)) or self.outlives(request):
                    watching.cancel()
                    continue
                try:
                    await self.answer(request, self.interrupted(request))
                except StorageError:
                    watching.cancel()  # it cannot be recorded now; the next drain records it
            if self._ongoing:
                await asyncio.wait(self._ongoing, return_when=asyncio.FIRST_COMPLETED)

    # -- the kind of request -------------------------------------------------------------------------------------

    @abstractmethod
    def live_request(self, request: R) -> Record:
        """The live event of a request."""

    @abstractmethod
    def live_answer(self, request: R, answer: A) -> Record:
        """The live event of an answer."""

    @abstractmethod
    def interrupted(self, request: R) -> Record:
        """The durable answer to a request that nobody waits for."""

    @abstractmethod
    def call_of(self, request: R) -> tuple[str, str] | None:
        """The message id and the call id of the tool call that asks."""

    @abstractmethod
    def same(self, one: R, other: R) -> bool:
        """Whether two requests of one call ask the same."""

    def outlives(self, request: R) -> bool:
        """Whether the request waits on although its process has ended and no call waits for it."""
        return False

    # -- details -------------------------------------------------------------------------------------------------

    def _stays(self, request: R) -> bool:
        """Whether an answer has an effect after this process has ended. A caller without a tool call is gone then."""
        call = self.call_of(request)
        return call is None or bool(call[0])

    async def _open_all(self, asked: Sequence[tuple[R, Record]], used: Collection[str]) -> Sequence[_Open[R, A]]:
        opened: list[_Open[R, A]] = []
        try:
            for request, event in asked:
                found = await self._open_or_known(request, event, {*used, *(before.request.id for before in opened)})
                opened.append(found)
        except HoldfastError:
            for before in opened:
                await self.answer(before.request, self.interrupted(before.request))
            raise
        return opened

    async def _open_or_known(self, request: R, asked: Record, used: Collection[str]) -> _Open[R, A]:
        known = await self._known(request, used)
        if known is None:
            resumable = getattr(asked, "resumable", None) is True
            return _Open(request, await self._open(request, asked), taken=not resumable)
        request, answer, taken = known
        if answer is None:
            return _Open(request, self._start_watching(request), taken=False)
        given: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        given.set_result(answer)
        return _Open(request, given, taken)

    async def _known(self, request: R, used: Collection[str]) -> tuple[R, A | None, bool] | None:
        """The same request of the same call, if an earlier process made it: the request, its answer, and whether the
        answer was taken."""
        call = self.call_of(request)
        if call is None:
            return None
        key = {"session_id": request.session_id, "message_id": call[0], "call_id": call[1]}
        for row in await self._database.fetch("request.of_call", key, into=RequestRow):
            if row.kind != self.kind or not row.resumable or row.id in self._watched or row.id in used:
                continue
            stored = decoder(self.request_type).decode(row.data)
            if self.same(stored, request):
                return stored, self._answer_of(row.reply), row.taken
        return None

    async def _open(self, request: R, asked: Record) -> asyncio.Task[A]:
        if self._closed:
            raise Unreachable(request.session_id)
        await self._record(request, asked)
        watching = self._start_watching(request)
        self._log.announce(self.live_request(request), location=self._location)
        return watching

    def _start_watching(self, request: R) -> asyncio.Task[A]:
        watching = self._own(self._watch(request))
        self._watched[request.id] = (request, watching)
        return watching

    async def _take(self, requests: Sequence[R]) -> None:
        """Only one process takes an answer; for the others the request is unreachable."""
        now, session_id = self._clock.now(), requests[0].session_id
        taken = [RequestTaken(timestamp=now, session_id=session_id, request_id=request.id) for request in requests]
        try:
            await self._log.publish(*taken, location=self._location)
        except AlreadyTaken as refused:
            raise Unreachable(session_id) from refused

    async def _settle(self, request: R, asked: Record, answered: Record, answer: A) -> None:
        await self._record(request, asked, answered)
        self._log.announce(self.live_request(request), location=self._location)
        self._announce_answer(request, answer)

    async def _record(self, request: R, *events: Record) -> None:
        of_session: dict[str, Value] = {"session_id": request.session_id}
        full: dict[str, Value] = {**of_session, "kind": self.kind, "most": MOST_PENDING}
        here = {**of_session, **self._place}
        elsewhere = partial(Unreachable, request.session_id)
        too_many = partial(TooManyRequests, request.session_id)
        before = (
            Statement("request.get", {"id": request.id}, found=False, error=partial(DuplicateRequest, request.id)),
            Statement("request.session_at_location", here, found=True, error=elsewhere),
            Statement("request.surplus", full, found=False, error=too_many),
        )
        await self._log.publish(*events, location=self._location, before=before)

    async def _watch(self, request: R) -> A:
        """The signal is registered before the first read, so that no answer is missed between the two."""
        try:
            with self._log.signals.follow(request.session_id) as dirty:
                while True:
                    dirty.clear()
                    row = await self._look(request.id)
                    if row is None or row.reply is not None:
                        break
                    if row.here:
                        await dirty.wait()
                    else:
                        await self._commit(self.interrupted(request))
        finally:
            del self._watched[request.id]
        answer = (self._answer_of(row.reply) if row is not None else None) or self.deleted
        self._announce_answer(request, answer)
        return answer

    async def _withdraw(self, opening: asyncio.Task[Sequence[_Open[R, A]]]) -> None:
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            for found in opening.result():
                await self.answer(found.request, self.interrupted(found.request))

    async def _commit(
        self, answered: Record, before: Sequence[Statement] = (), local: Sequence[Statement] = ()
    ) -> bool:
        try:
            await self._log.publish(answered, location=self._location, before=before, local=local)
        except AlreadyAnswered:
            return False
        return True

    async def _announce_stored_answer(self, request: R) -> None:
        row = await self._look(request.id)
        if row is not None and (answer := self._answer_of(row.reply)) is not None:
            self._announce_answer(request, answer)

    def _announce_answer(self, request: R, answer: A) -> None:
        self._log.announce(self.live_answer(request, answer), location=self._location)

    async def _look(self, request_id: str) -> _LocatedRow | None:
        key = {"id": request_id, "kind": self.kind, **self._place}
        rows = await self._database.fetch("request.at_location", key, into=_LocatedRow)
        return rows[0] if rows else None

    def _answer_of(self, reply: str | None) -> A | None:
        return None if reply is None else decoder(self.answer_type).decode(reply)

    def _own(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._ongoing.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._ongoing.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), StorageError):
            log.warning("a %s request of %s: %s", self.kind, self._location.directory, error)


class _OpenRow(Frozen):
    session_id: str
    kind: str
    agent: str | None
    data: str


class _LocatedRow(Frozen):
    """A request. `here`: its Session is at this Location now."""

    session_id: str
    agent: str | None
    data: str
    reply: str | None
    here: bool
