"""Puts what MCP servers ask to people: as forms of the Session whose call is under way.

Invariants
- A form is recorded before anybody waits for it, with everything that another process needs to go on with the call.
- An answer is given to the server once in each execution of a call: a server that asks the same a second time gets a
  second form. An execution in a later process gives the stored answers in the order in which they were asked for.
- The forms of one result that asks for input are answered and taken together: the call then goes on exactly once."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.form.errors import FormAlreadySettled, FormNotFound
from holdfast.core.form.forms import FormReply
from holdfast.core.mcp.authorization_wait import AuthorizationWait
from holdfast.core.mcp.elicitation import ID_CHARACTERS, KIND, VISIT, ElicitationRefused, as_answer, as_draft
from holdfast.core.permission.requests import TooManyRequests, Unreachable
from holdfast.mcp.errors import ProtocolError, RpcError
from holdfast.mcp.input import INPUT_METHODS, Elicitation, ElicitationAnswer, InputRequired, method_of
from holdfast.mcp.messages import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.question import QuestionTool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextvars import Context

    from holdfast.core.form.forms import FormDraft, Forms, HeldForm
    from holdfast.core.mcp.authorization import ServerAuthorization
    from holdfast.core.mcp.seam import CallFor
    from holdfast.mcp.errors import NeedsAuthorization
    from holdfast.schema.form import Form

MOST_COMPLETED = 100
LOOK_SECONDS = 0.02
INPUT_BYTES = 1024 * 1024
"""Of what a result asks for and of the server's state, as they are stored."""
MOST_QUESTIONS = 20
"""During one execution of a call."""
CANCELLED = FormReply(cancelled="interrupted")

Key = tuple[str, str, str]


class _Execution:
    """One execution of a call."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        """Forms whose answers were given to the server."""
        self.given: tuple[InputRequired, Mapping[str, ElicitationAnswer]] | None = None
        """The newest input that was required, and the answers."""
        self.asked = False
        self.questions = 0
        self.context: Context | None = None
        """That of the call. A question of a server comes in another one, and the wait for it is no work of the call."""
        self.asking: set[asyncio.Task[Sequence[tuple[Form, FormReply]]]] = set()


class FormPeople:
    """The People of one Location. `authorization` gives what signs in to a server, if it is remote and uses OAuth."""

    def __init__(self, forms: Forms, authorization: Callable[[str], ServerAuthorization | None]) -> None:
        self._forms = forms
        self._authorization = authorization
        self._executions: dict[Key, _Execution] = {}
        self._visits: Counter[tuple[str, str]] = Counter()
        self._completed: deque[tuple[str, str]] = deque(maxlen=MOST_COMPLETED)
        """Visits whose end was told before anybody was asked for them."""
        self._completing: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def elicit(self, server: str, request: Elicitation, whom: CallFor) -> ElicitationAnswer:
        """Raises RpcError, which the server reads."""
        execution = self._execution(whom)
        execution.questions += 1
        if execution.questions > MOST_QUESTIONS:
            raise RpcError(INVALID_REQUEST, f"A call may ask for input at most {MOST_QUESTIONS} times")
        try:
            draft = as_draft(server, request)
        except ElicitationRefused as error:
            raise RpcError(INVALID_PARAMS, str(error)) from error
        if request.mode == "url" and (visit := (server, request.elicitation_id or "")) in self._completed:
            self._completed.remove(visit)
            return ElicitationAnswer(action="accept")
        try:
            with self._visiting(server, [request]):
                (reply,) = await self._ask([draft], whom)
        except TooManyRequests as error:
            raise RpcError(INTERNAL_ERROR, str(error)) from error
        return as_answer(request, reply)

    async def input(self, server: str, required: InputRequired, whom: CallFor) -> Mapping[str, ElicitationAnswer]:
        """Raises ProtocolError if no form can show what is asked, or if it is too large to be stored."""
        asked = {key: request for key, request in required.requests.items() if isinstance(request, Elicitation)}
        execution = self._execution(whom)
        if execution.given is not None and execution.given[0] is required:
            return execution.given[1]  # the server refused the call before it looked at them
        held: dict[str, Any] | None = {"server": server, "input": _stored(required)}
        if len(encode(held)) > INPUT_BYTES:
            raise ProtocolError(f"The input that is asked for and its state have more than {INPUT_BYTES} bytes")
        drafts = []
        for request in asked.values():
            try:
                drafts.append(as_draft(server, request, held))
            except ElicitationRefused as error:
                raise ProtocolError(str(error)) from error
            held = None  # the first form has it
        try:
            with self._visiting(server, asked.values()):
                found = await self._ask(drafts, whom)
        except TooManyRequests as error:
            raise ProtocolError(str(error)) from error
        given = {key: as_answer(asked[key], reply) for key, reply in zip(asked, found, strict=True)}
        execution.given = (required, given)
        return given

    async def pending(self, server: str, whom: CallFor) -> InputRequired | None:
        """The newest input that the call was asked for. Earlier forms are not used again."""
        execution = self._execution(whom)
        execution.context = copy_context()
        made = await self._forms.held(whom.session_id, _tool(whom))
        for number in range(len(made) - 1, -1, -1):
            required = _restored(server, made[number])
            if required is not None:
                execution.asked = True
                execution.used.update(form.id for form in made[:number])
                return required
        return None

    def completed(self, server: str, elicitation_id: str) -> None:
        visit = (server, elicitation_id)
        if visit not in self._visits:
            self._completed.append((server, elicitation_id[:ID_CHARACTERS]))
        elif visit not in self._completing:
            self._completing.add(visit)
            task = asyncio.get_running_loop().create_task(self._complete(server, elicitation_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def ended(self, whom: CallFor) -> None:
        """Also what earlier processes asked for the call, and nobody asked for again, is cancelled."""
        execution = self._executions.pop(_key(whom), None)
        if execution is None:
            return
        asking = tuple(execution.asking)
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)
        if execution.asked and not self._forms.ending:
            await self._forms.close_call(whom.session_id, _tool(whom))

    async def authorize(self, server: str, needs: NeedsAuthorization, whom: CallFor) -> bool:
        authorization = self._authorization(server)
        if authorization is None or self._unattended:
            return False
        found = authorization.authorizer.credential()
        if found is not None and found.access != needs.refused:
            return True  # it has arrived since the refusal
        wait = AuthorizationWait(self._forms, authorization, server, whom.session_id)
        try:
            (reply,) = await wait.run(needs.refused, lambda draft: self._ask([draft], whom))
        except TooManyRequests:
            return False
        return reply.answer is not None

    @property
    def _unattended(self) -> bool:
        return self._forms.unattended != "wait"

    async def _ask(self, drafts: Sequence[FormDraft], whom: CallFor) -> Sequence[FormReply]:
        """The forms are cancelled where nobody can be asked, or where the call is over before they are answered."""
        cancelled = [CANCELLED for _ in drafts]
        if self._unattended or not drafts:
            return cancelled
        execution = self._execution(whom)
        execution.asked = True
        work = self._forms.ask(whom.session_id, _tool(whom), drafts, used=frozenset(execution.used))
        context = execution.context.copy() if execution.context is not None else None
        asking = asyncio.get_running_loop().create_task(work, context=context)
        execution.asking.add(asking)
        try:
            await asyncio.wait({asking})
        finally:
            execution.asking.discard(asking)
            if not asking.done():
                asking.cancel()
                await asyncio.wait({asking})
        if asking.cancelled():
            if self._forms.ending:  # the server must not go on without an answer: the next process gives it
                raise asyncio.CancelledError
            return cancelled
        try:
            found = asking.result()
        except Unreachable:
            return cancelled
        execution.used.update(form.id for form, _ in found)
        return [reply for _, reply in found]

    def _execution(self, whom: CallFor) -> _Execution:
        return self._executions.setdefault(_key(whom), _Execution())

    @contextmanager
    def _visiting(self, server: str, requests: Collection[Elicitation]) -> Iterator[None]:
        """Meanwhile the server may say that one of these visits is complete."""
        keys = [(server, request.elicitation_id) for request in requests if request.elicitation_id and request.url]
        self._visits.update(keys)
        try:
            yield
        finally:
            self._visits.subtract(keys)
            for key in keys:
                if self._visits[key] <= 0:
                    del self._visits[key]

    async def _complete(self, server: str, elicitation_id: str) -> None:
        """The notice may come while the form is being recorded."""
        visit = (server, elicitation_id)
        try:
            while visit in self._visits:
                if await self._answer_visits(server, elicitation_id):
                    return
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._completing.discard(visit)

    async def _answer_visits(self, server: str, elicitation_id: str) -> bool:
        """Whether there was a form to answer."""
        found = False
        for form in await self._forms.list():
            about = form.metadata or {}
            if (about.get("kind"), about.get("server"), about.get("elicitationID")) != (KIND, server, elicitation_id):
                continue
            found = True
            try:
                await self._forms.reply(form.session_id, form.id, {VISIT: True})
            except (FormAlreadySettled, FormNotFound):
                continue
        return found


def _key(whom: CallFor) -> Key:
    return whom.session_id, whom.message_id, whom.call_id


def _tool(whom: CallFor) -> QuestionTool:
    return QuestionTool(message_id=whom.message_id, call_id=whom.call_id)


def _stored(required: InputRequired) -> dict[str, Any]:
    requests = {
        key: {"method": method_of(request), "params": msgspec.to_builtins(request)}
        for key, request in required.requests.items()
    }
    return {"requests": requests, "state": required.state}


def _restored(server: str, form: HeldForm) -> InputRequired | None:
    held = decode_any(form.held) if form.held is not None else {}
    if held.get("server") != server or "input" not in held:
        return None
    requests = {
        key: msgspec.convert(asked["params"], INPUT_METHODS[asked["method"]])
        for key, asked in held["input"]["requests"].items()
    }
    return InputRequired(requests, held["input"]["state"])
