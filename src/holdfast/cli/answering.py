"""Answers what a Session asks while `holdfast run` follows it: by asking the person, or in their place.

Invariants
- One request at a time is on the terminal, in the order in which they were asked.
- A request that was answered elsewhere leaves the terminal; its late answer is no failure.
- What nobody here can answer is refused at once, with a reason that the model reads too."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.cli.dialogue import Decision, answer, decide
from holdfast.cli.screen import fields
from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import QuestionRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from holdfast.cli.screen import Screen
    from holdfast.cli.terminal import Terminal
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.typed_event import Event

T = TypeVar("T")

NOBODY_HERE = "Nobody is at a terminal to decide this; `holdfast run --yes` would allow it"
NOBODY_LETS_OUT = "Nobody is at a terminal to decide whether this may run outside the sandbox"
NOBODY_ANSWERS = "Nobody is here to answer; go on with what you know, and say what you assumed"


class Answering:
    def __init__(
        self, client: AsyncClient, session_id: str, screen: Screen, terminal: Terminal | None, *, allow: bool
    ) -> None:
        """Without a terminal there is nobody to ask; `allow` approves every permission, terminal or not."""
        self._client = client
        self._session_id = session_id
        self._screen = screen
        self._terminal = terminal
        self._allow = allow
        self._waiting: asyncio.Queue[PermissionRequest | QuestionRequest] = asyncio.Queue()
        self._known: set[str] = set()
        self._settled: set[str] = set()
        self._asking: tuple[str, asyncio.Task[Any]] | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            request = await self._waiting.get()
            if request.id not in self._settled:
                await self._settle(request)

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """An event of the Session."""
        import msgspec

        match kind:
            case "permission.v2.asked":
                self.asked(msgspec.convert(data, PermissionRequest))
            case "question.v2.asked":
                self.asked(msgspec.convert(data, QuestionRequest))
            case "permission.v2.replied" | "question.v2.replied" | "question.v2.rejected":
                self._answered(data["requestID"])

    async def listen(self, live: AsyncIterator[Event]) -> None:
        """Hear what is asked, and nothing else, for as long as the stream lasts."""
        async for event in live:
            data = fields(event)
            if data.get("sessionID") == self._session_id:
                self.note(event.type, data)

    async def look(self) -> None:
        """Also what was asked before we listened, or in another process."""
        for permission in await self._client.permissions.list(self._session_id):
            self.asked(permission)
        for question in await self._client.questions.list(self._session_id):
            self.asked(question)

    def asked(self, request: PermissionRequest | QuestionRequest) -> None:
        if request.id not in self._known:
            self._known.add(request.id)
            self._waiting.put_nowait(request)

    def _answered(self, request_id: str) -> None:
        self._settled.add(request_id)
        if self._asking is not None and self._asking[0] == request_id:
            self._asking[1].cancel()

    async def _settle(self, request: PermissionRequest | QuestionRequest) -> None:
        self._screen.hold()
        try:
            if isinstance(request, PermissionRequest):
                await self._reply(request)
            else:
                await self._answer(request)
        except AnsweredElsewhere:
            self._say("  (answered elsewhere)")
        except ApiError as error:
            self._say("  (answered elsewhere)" if error.status == 404 else f"  ({error})")
        except ClientError as error:
            self._say(f"  (the answer did not arrive: {error})")
        finally:
            self._screen.release()

    async def _reply(self, request: PermissionRequest) -> None:
        # --yes answers what would be asked inside the sandbox that was chosen, not whether it may be left.
        if self._allow and request.action != "sandbox_escape":
            made = Decision("once")
        elif self._terminal is None:
            made = Decision("reject", NOBODY_HERE if request.action != "sandbox_escape" else NOBODY_LETS_OUT)
        else:
            made = await self._unless_answered(request.id, decide(self._terminal, request))
        await self._client.permissions.reply(
            self._session_id, request_id=request.id, reply=made.reply, message=made.message, save=made.save
        )

    async def _answer(self, request: QuestionRequest) -> None:
        answers = None
        if self._terminal is not None:
            answers = await self._unless_answered(request.id, answer(self._terminal, request.questions))
        elif all(question.custom is not False for question in request.questions):
            answers = tuple((NOBODY_ANSWERS,) for _ in request.questions)
        if answers is None:
            await self._client.questions.reject(self._session_id, request_id=request.id)
        else:
            await self._client.questions.reply(self._session_id, request_id=request.id, answers=answers)

    async def _unless_answered(self, request_id: str, asking: Coroutine[Any, Any, T]) -> T:
        """What the person says; AnsweredElsewhere as soon as it no longer matters."""
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

    def _say(self, text: str) -> None:
        if self._terminal is not None:
            self._terminal.say(text)


class AnsweredElsewhere(Exception):
    """The request on the terminal was answered by another client."""
