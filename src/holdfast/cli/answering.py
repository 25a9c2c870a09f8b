"""Answers the permission requests and questions of a Session, and of its descendants, while `holdfast run` follows it.

Invariants
- One request at a time is on the terminal, in the order in which they were asked.
- A request that another client answers leaves the terminal; a late answer is not a failure.
- A request that no person here can answer is answered at once, with a reason that the model reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.deferred import deferred
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import QuestionRequest

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from holdfast.cli import dialogue
    from holdfast.cli.attendance import Attendance
    from holdfast.cli.screen import Screen
    from holdfast.client.generated.async_client import AsyncClient
else:
    dialogue = deferred("holdfast.cli.dialogue")

T = TypeVar("T")

ELSEWHERE = "  (another client has answered)"


class Answering:
    def __init__(self, client: AsyncClient, session_id: str, screen: Screen, attendance: Attendance) -> None:
        self._client = client
        self._session_id = session_id
        self._screen = screen
        self._attendance = attendance
        self._terminal = attendance.terminal
        self._waiting: asyncio.Queue[PermissionRequest | QuestionRequest] = asyncio.Queue()
        self._known: set[str] = set()
        self._settled: set[str] = set()
        self._asking: tuple[str, asyncio.Task[Any]] | None = None

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
            case "permission.v2.replied" | "question.v2.replied" | "question.v2.rejected":
                self._settled.add(data["requestID"])
                if self._asking is not None and self._asking[0] == data["requestID"]:
                    self._asking[1].cancel()

    async def look(self) -> None:
        """Find requests whose event did not arrive: asked before the stream was open, or in another process."""
        for permission in await self._client.permissions.list(self._session_id):
            self._add(permission)
        for question in await self._client.questions.list(self._session_id):
            self._add(question)

    def _add(self, request: PermissionRequest | QuestionRequest) -> None:
        if request.id not in self._known:
            self._known.add(request.id)
            self._waiting.put_nowait(request)

    async def _settle(self, request: PermissionRequest | QuestionRequest) -> None:
        self._screen.hold()
        try:
            if isinstance(request, PermissionRequest):
                await self._reply(request)
            else:
                await self._answer(request)
        except AnsweredElsewhere:
            self._say(ELSEWHERE)
        except ApiError as error:
            self._say(ELSEWHERE if error.status == 404 else f"  (the answer was refused: {error})")
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

    def _say_who(self, request: PermissionRequest | QuestionRequest) -> None:
        if request.session_id != self._session_id:
            self._say(f"? the child session {request.session_id} asks:")

    def _say(self, text: str) -> None:
        if self._terminal is not None:
            self._terminal.say(text)


class AnsweredElsewhere(Exception):
    """Another client answered the request that is on the terminal."""
