"""Answers the permission requests, questions and forms of a Session, and of its descendants, while `holdfast run`
follows it.

Invariants
- One request at a time is on the terminal, in the order in which they were asked.
- A request that another client answers leaves the terminal; a late answer is not a failure.
- A request that no person here can answer is answered at once, with a reason that the model reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.cli.output import brief, visible
from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.deferred import deferred
from holdfast.schema.exceptions import InvalidFormAnswer
from holdfast.schema.form import Form
from holdfast.schema.permission import NOBODY_TO_ASK, PermissionRequest
from holdfast.schema.question import QuestionRequest

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from holdfast.cli import dialogue, form_dialogue, sign_in_dialogue
    from holdfast.cli.attendance import Attendance
    from holdfast.cli.screen import Screen
    from holdfast.client.generated.async_client import AsyncClient
else:
    dialogue = deferred("holdfast.cli.dialogue")
    form_dialogue = deferred("holdfast.cli.form_dialogue")
    sign_in_dialogue = deferred("holdfast.cli.sign_in_dialogue")

T = TypeVar("T")
Request = PermissionRequest | QuestionRequest | Form

MOST_DENIED = 100
ELSEWHERE = "  (another client has answered)"
SIGNED_IN = "  (signed in)"


class Answering:
    def __init__(self, client: AsyncClient, session_id: str, screen: Screen, attendance: Attendance) -> None:
        self._client = client
        self._session_id = session_id
        self._screen = screen
        self._attendance = attendance
        self._terminal = attendance.terminal
        self._waiting: asyncio.Queue[Request] = asyncio.Queue()
        self._known: set[str] = set()
        self._settled: set[str] = set()
        self._asking: tuple[str, asyncio.Task[Any]] | None = None
        self.denied: list[str] = []
        """What was denied here, each in a line: by the person, or because there is none."""

    async def run(self) -> None:
        """Answer requests until cancelled."""
        while True:
            request = await self._waiting.get()
            if request.id not in self._settled:
                await self._settle(request)

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Take notice of an event of the Session or of a descendant."""
        import msgspec

        match kind:
            case "permission.v2.asked":
                self._add(msgspec.convert(data, PermissionRequest))
            case "question.v2.asked":
                self._add(msgspec.convert(data, QuestionRequest))
            case "form.created":
                self._add(msgspec.convert(data["form"], Form))
            case "permission.v2.replied" | "question.v2.replied" | "question.v2.rejected":
                self._answered(data["requestID"])
            case "form.replied" | "form.cancelled":
                self._answered(data["id"])

    def note_failure(self, message: str) -> None:
        """Take notice of the failure of a call: the runtime of this process denies by itself if nobody can be asked."""
        if NOBODY_TO_ASK in message and len(self.denied) < MOST_DENIED:
            self.denied.append(brief(message, 200) + self._way_out)

    @property
    def _way_out(self) -> str:
        """What would have allowed it. `--yes` does not allow leaving the sandbox."""
        return "" if self._terminal is not None or self._attendance.allow else "; --yes allows it"

    async def look(self) -> None:
        """Find requests whose event did not arrive: asked before the stream was open, or in another process."""
        for permission in await self._client.permissions.list(self._session_id):
            self._add(permission)
        for question in await self._client.questions.list(self._session_id):
            self._add(question)
        for form in await self._client.forms.list(self._session_id):
            self._add(form)

    def _answered(self, request_id: str) -> None:
        self._settled.add(request_id)
        if self._asking is not None and self._asking[0] == request_id:
            self._asking[1].cancel()

    def _add(self, request: Request) -> None:
        if isinstance(request, Form) and request.tool is None:
            return  # no call waits for it, and its answer is not for this run
        if request.id not in self._known:
            self._known.add(request.id)
            self._waiting.put_nowait(request)

    async def _settle(self, request: Request) -> None:
        self._screen.hold()
        try:
            if isinstance(request, PermissionRequest):
                await self._reply(request)
            elif isinstance(request, Form):
                await self._fill_in(request)
            else:
                await self._answer(request)
        except AnsweredElsewhere:
            signed_in = isinstance(request, Form) and sign_in_dialogue.is_sign_in(request)
            self._say(SIGNED_IN if signed_in else ELSEWHERE)
        except ApiError as error:
            self._say(ELSEWHERE if error.status in (404, 409) else f"  (the answer was refused: {error})")
        except ClientError as error:
            self._say(f"  (the answer did not arrive: {error})")
        finally:
            self._screen.release()

    async def _reply(self, request: PermissionRequest) -> None:
        decision = self._attendance.decide(request)
        if decision is None:
            assert self._terminal is not None
            self._say_who(request)
            decision = await self._unless_answered(request.id, dialogue.decide(self._terminal, request))
        await self._client.permissions.reply(
            self._session_id, request_id=request.id, reply=decision.reply, message=decision.message, save=decision.save
        )
        if decision.reply == "reject" and len(self.denied) < MOST_DENIED:
            what = brief(visible(f"{request.action} {', '.join(request.resources)}"))
            why = "" if self._terminal is not None else " (nobody is at a terminal to allow it)"
            self.denied.append(f"Permission denied: {what}{why}{self._way_out}")

    async def _answer(self, request: QuestionRequest) -> None:
        if self._terminal is None:
            answers = self._attendance.answers(request)
        else:
            self._say_who(request)
            answers = await self._unless_answered(request.id, dialogue.answer(self._terminal, request.questions))
        if answers is None:
            await self._client.questions.reject(self._session_id, request_id=request.id)
        else:
            await self._client.questions.reply(self._session_id, request_id=request.id, answers=answers)

    async def _fill_in(self, form: Form) -> None:
        if self._terminal is None:
            await self._client.forms.cancel(self._session_id, form_id=form.id)
            return
        self._say_who(form)
        if sign_in_dialogue.is_sign_in(form):
            await self._unless_answered(form.id, sign_in_dialogue.sign_in(self._terminal, self._client, form))
            await self._client.forms.cancel(self._session_id, form_id=form.id)
            return
        problem: str | None = None
        while True:
            asking = form_dialogue.fill_in(self._terminal, form, problem)
            answer = await self._unless_answered(form.id, asking)
            if answer is None:
                await self._client.forms.cancel(self._session_id, form_id=form.id)
                return
            try:
                await self._client.forms.reply(self._session_id, form_id=form.id, answer={**answer})
            except InvalidFormAnswer as error:
                problem = str(error)
                continue
            return

    async def _unless_answered(self, request_id: str, asking: Coroutine[Any, Any, T]) -> T:
        """The person's answer. Raises AnsweredElsewhere as soon as another client has answered."""
        task = asyncio.get_running_loop().create_task(asking)
        self._asking = (request_id, task)
        try:
            return await task
        except asyncio.CancelledError:
            if request_id not in self._settled:
                raise
            raise AnsweredElsewhere from None
        finally:
            task.cancel()
            self._asking = None

    def _say_who(self, request: Request) -> None:
        if request.session_id != self._session_id:
            self._say(f"? the child session {request.session_id} asks:")

    def _say(self, text: str) -> None:
        if self._terminal is not None:
            self._terminal.say(text)


class AnsweredElsewhere(Exception):
    """Another client answered the request that is on the terminal."""
