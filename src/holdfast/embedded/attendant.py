"""Answers permission requests, questions and forms with functions of the program.

Invariants
- Only requests of Sessions that this host executes are answered, and those that already wait in a Session which the
  program names: other programs and people on the same data answer their own.
- A function that fails, or returns something that is not an answer, is told in the log; the request stays open.
- The functions for a Session are asked before those for its parent, and so on up to the root, then those for the
  host; newer ones first, until one answers."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.deferred import deferred
from holdfast.schema.exceptions import FormAlreadySettled, InvalidRequest, NotFound
from holdfast.schema.form import Form
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import FormCreatedLive
from holdfast.schema.permission import PermissionRequest, Reply
from holdfast.schema.question import QuestionRequest
from holdfast.schema.session import Session
from holdfast.schema.typed_event import decode_event

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.core.event.bus import Subscription
    from holdfast.core.permission.permission import Unattended
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.embedded import piece_maker
else:
    piece_maker = deferred("holdfast.embedded.piece_maker")

ASKED = frozenset(("permission.v2.asked", "question.v2.asked", "form.created"))
REPLIES = ("once", "always", "reject")
ANSWERS_ITSELF = "this host answers requests itself: it has unattended={!r}, and functions need 'wait'"

log = logging.getLogger(__name__)


class Dismiss(Enum):
    """The answer to a question that nobody will answer, which ends the turn, or to a form, which is cancelled."""

    DISMISS = "dismiss"


DISMISS: Final = Dismiss.DISMISS


class PermissionReply(Frozen):
    """An answer to a permission request. The model reads the `message` of a rejection and goes on; without one the turn
    ends. `save` selects patterns that the request offers for `always`."""

    reply: Reply
    message: str | None = None
    save: tuple[str, ...] | None = None


PermissionDecision = Reply | PermissionReply | None
QuestionDecision = str | Sequence[str | Sequence[str]] | Dismiss | None
FormDecision = Mapping[str, Any] | Dismiss | None
PermissionCallback = Callable[[PermissionRequest], PermissionDecision | Awaitable[PermissionDecision]]
QuestionCallback = Callable[[QuestionRequest], QuestionDecision | Awaitable[QuestionDecision]]
FormCallback = Callable[[Form], FormDecision | Awaitable[FormDecision]]
Request = PermissionRequest | QuestionRequest | Form


class _Registered(Frozen, eq=False):
    callback: Callable[[Any], Any]
    kind: type[Request]
    session_id: str | None


class Attendant:
    def __init__(self, client: AsyncClient, runtime: Runtime, unattended: Unattended) -> None:
        self._client = client
        self._runtime = runtime
        self._unattended = unattended
        self._registered: list[_Registered] = []
        self._open = False
        self._subscription: Subscription | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._handled: set[str] = set()
        """Requests that functions are being asked about, until their answer is delivered."""

    def on_permission(self, callback: PermissionCallback, session: Session | str | None) -> Callable[[], None]:
        return self._register(callback, PermissionRequest, session)

    def on_question(self, callback: QuestionCallback, session: Session | str | None) -> Callable[[], None]:
        return self._register(callback, QuestionRequest, session)

    def on_form(self, callback: FormCallback, session: Session | str | None) -> Callable[[], None]:
        return self._register(callback, Form, session)

    def open(self) -> None:
        """The runtime is open."""
        self._open = True
        if self._registered:
            self._listen()

    async def close(self) -> None:
        """Stop asking, and forget the functions. Requests that they did not answer stay open."""
        self._open = False
        self._registered.clear()
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def attends(self, session_id: str, ancestors: Sequence[str]) -> bool:
        """Whether a function would be asked about a permission of this Session."""
        line = {session_id, *ancestors, None}
        return any(one.kind is PermissionRequest and one.session_id in line for one in self._registered)

    def _register(
        self,
        callback: Callable[[Any], Any],
        kind: type[Request],
        session: Session | str | None,
    ) -> Callable[[], None]:
        if self._unattended != "wait":
            raise ValueError(ANSWERS_ITSELF.format(self._unattended))
        session_id = session.id if isinstance(session, Session) else session
        registered = _Registered(callback, kind, session_id)
        self._registered.append(registered)
        if self._open:
            self._listen()
            self._start(self._look(registered))

        def remove() -> None:
            if registered in self._registered:
                self._registered.remove(registered)

        return remove

    # -- requests ------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Subscribed before this returns, so that no request is missed."""
        if self._subscription is None:
            self._subscription = self._runtime.log.bus.subscribe(ASKED)
            self._start(self._follow(self._subscription))

    async def _follow(self, subscription: Subscription) -> None:
        async for announcement in subscription:
            if not announcement.relayed:
                asked = decode_event(announcement.wire).data
                if isinstance(asked, PermissionRequest):
                    self._handle(piece_maker.plain_request(asked, PermissionRequest))
                elif isinstance(asked, QuestionRequest):
                    self._handle(piece_maker.plain_request(asked, QuestionRequest))
                elif isinstance(asked, FormCreatedLive):
                    self._handle(asked.form)

    async def _look(self, registered: _Registered) -> None:
        """Find the requests that were made before the function was registered."""
        try:
            for request in await self._made_before(registered):
                self._handle(request)
        except (ApiError, ClientError) as error:
            log.error("cannot look for requests of %s: %s", registered.session_id or "this host", error)

    async def _made_before(self, registered: _Registered) -> list[Request]:
        session_ids: list[str] = []
        if registered.session_id is not None:
            session_ids = [registered.session_id]
        else:
            active = await self._client.sessions.active()
            session_ids = [session_id for session_id in active if self._runtime.execution.here(session_id)]
        found: list[Request] = []
        for session_id in session_ids:
            if registered.kind is PermissionRequest:
                found += await self._client.permissions.list(session_id)
            elif registered.kind is QuestionRequest:
                found += await self._client.questions.list(session_id)
            else:
                found += await self._client.forms.list(session_id)
        return found

    def _handle(self, request: Request) -> None:
        if request.id not in self._handled:
            self._handled.add(request.id)
            self._start(self._ask(request))

    async def _ask(self, request: Request) -> None:
        try:
            await self._answer(request)
        finally:
            self._handled.discard(request.id)

    async def _answer(self, request: Request) -> None:
        try:
            decision = await self._decision(request)
        except Exception:
            log.exception("a function failed to answer %s of %s, which stays open", request.id, request.session_id)
            return
        if decision is None:
            return
        try:
            await self._reply(request, decision)
        except (NotFound, FormAlreadySettled):
            pass  # somebody else has answered
        except (ApiError, ClientError) as error:
            log.error("%s of %s stays open, the answer was refused: %s", request.id, request.session_id, error)

    async def _decision(self, request: Request) -> Any:
        """The first answer of a function. Functions that are registered meanwhile are asked too."""
        asked: set[_Registered] = set()
        while waiting := [found for found in self._responsible(request) if found not in asked]:
            asked.add(waiting[0])
            decision = await _call(waiting[0].callback, request)
            if decision is not None:
                return decision
        return None

    def _responsible(self, request: Request) -> list[_Registered]:
        fitting = [found for found in reversed(self._registered) if type(request) is found.kind]
        line = (request.session_id, *reversed(request.ancestors or ()), None)
        return [found for session_id in line for found in fitting if found.session_id == session_id]

    async def _reply(self, request: Request, decision: Any) -> None:
        if isinstance(request, PermissionRequest):
            given = _permission_reply(decision)
            await self._client.permissions.reply(
                request.session_id, request_id=request.id, reply=given.reply, message=given.message, save=given.save
            )
        elif isinstance(request, Form):
            await self._reply_to_form(request, decision)
        elif decision is DISMISS:
            await self._client.questions.reject(request.session_id, request_id=request.id)
        else:
            answers = _answers(request, decision)
            await self._client.questions.reply(request.session_id, request_id=request.id, answers=answers)

    async def _reply_to_form(self, form: Form, decision: Any) -> None:
        if decision is DISMISS:
            await self._client.forms.cancel(form.session_id, form_id=form.id)
        elif isinstance(decision, Mapping):
            await self._client.forms.reply(form.session_id, form_id=form.id, answer=dict(decision))
        else:
            raise InvalidRequest(f"a form is answered with a mapping of its keys to values, not {decision!r}")

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="holdfast-attendant")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _call(callback: Callable[[Any], Any], request: object) -> Any:
    if inspect.iscoroutinefunction(callback):
        return await callback(request)
    result = await _in_thread(callback, request)
    return await result if inspect.isawaitable(result) else result


async def _in_thread(callback: Callable[[Any], Any], request: object) -> Any:
    """In a thread of its own: a function may wait for a person for hours, and must hold up neither the threads of tools
    nor the end of the process."""
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def finish(result: Any, error: Exception | None) -> None:
        if finished.done():
            return
        if error is not None:
            finished.set_exception(error)
        else:
            finished.set_result(result)

    def work() -> None:
        result, failure = None, None
        try:
            result = context.run(callback, request)
        except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
            failure = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(finish, result, failure)

    threading.Thread(target=work, name="holdfast-callback", daemon=True).start()
    return await finished


def _permission_reply(decision: Any) -> PermissionReply:
    if isinstance(decision, PermissionReply):
        return decision
    if decision in REPLIES:
        return PermissionReply(decision)
    raise InvalidRequest(f"a permission is answered with {', '.join(REPLIES)} or a PermissionReply, not {decision!r}")


def _answers(request: QuestionRequest, decision: Any) -> list[list[str]]:
    """One list of chosen or written answers for each question."""
    if isinstance(decision, str):
        decision = [decision]
    if not isinstance(decision, Sequence) or len(decision) != len(request.questions):
        raise InvalidRequest(f"{len(request.questions)} questions need as many answers, not {decision!r}")
    return [[answer] if isinstance(answer, str) else list(answer) for answer in decision]
