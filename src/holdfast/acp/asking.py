"""Asks the editor what a Session of the tree asks a person: permissions, questions, forms.

Invariants
- A request is asked once at a time. Each editor that has the Session open asks; the first answer counts, and the others
  take their question back.
- An editor that disappears answers nothing: the request stays open in the database for the next client.
- What the editor cannot ask is answered in a way that the model or the person reads; nothing is denied in silence."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.client.errors import ApiError, ClientError
from holdfast.mcp.errors import McpError, ServerError
from holdfast.schema import live_event as live
from holdfast.schema.exceptions import FormAlreadySettled, NotFound
from holdfast.schema.form import Form
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import QuestionRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.acp.elicitation import Elicitation
    from holdfast.acp.permission import PermissionDialogue
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.typed_event import Event

Request = PermissionRequest | QuestionRequest | Form
MOST_REQUESTS = 256
"""That are asked at a time. More of them stay open and are asked when the Session is opened again."""

log = logging.getLogger(__name__)


class Asking:
    def __init__(
        self,
        client: AsyncClient,
        session_id: str,
        permissions: PermissionDialogue,
        elicitation: Elicitation,
        cancelling: Callable[[], bool],
    ) -> None:
        """`cancelling`: whether the editor has cancelled the turn."""
        self._client = client
        self._session_id = session_id
        self._permissions = permissions
        self._elicitation = elicitation
        self._cancelling = cancelling
        self._asked: dict[str, asyncio.Task[None]] = {}

    @property
    def asks(self) -> bool:
        """Whether the editor is being asked something."""
        return bool(self._asked)

    def note(self, event: Event) -> None:
        match event.data:
            case live.PermissionAskedLive() as asked:
                self._begin(_plain(asked, PermissionRequest))
            case live.QuestionAskedLive() as question:
                self._begin(_plain(question, QuestionRequest))
            case live.FormCreatedLive(form=form):
                self._begin(form)
            case live.PermissionRepliedLive(request_id=id):
                self._take_back(id)
            case live.QuestionRepliedLive(request_id=id) | live.QuestionRejectedLive(request_id=id):
                self._take_back(id)
            case live.FormRepliedLive(id=id) | live.FormCancelledLive(id=id):
                self._take_back(id)

    async def look(self) -> None:
        """Ask what is open now: asked before the Session was opened here, or while its events were missed."""
        open: list[Request] = [
            *await self._client.permissions.list(self._session_id),
            *await self._client.questions.list(self._session_id),
            *await self._client.forms.list(self._session_id),
        ]
        ids = {request.id for request in open}
        for id in [id for id in self._asked if id not in ids]:
            self._take_back(id)
        for request in open:
            self._begin(request)

    async def close(self) -> None:
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _begin(self, request: Request) -> None:
        if isinstance(request, Form) and request.tool is None:
            return  # no call waits for it
        if request.id in self._asked or len(self._asked) >= MOST_REQUESTS:
            return
        work = self._ask(request)
        self._asked[request.id] = asyncio.get_running_loop().create_task(work, name=f"holdfast-ask {request.id}")

    def _take_back(self, id: str) -> None:
        """Somebody has answered. The cancelled call tells the editor so."""
        if (task := self._asked.get(id)) is not None:
            task.cancel()

    async def _ask(self, request: Request) -> None:
        try:
            match request:
                case PermissionRequest():
                    await self._permissions.ask(request, self._cancelling)
                case QuestionRequest():
                    await self._elicitation.ask_questions(request, self._cancelling)
                case Form():
                    await self._elicitation.ask_form(request, self._cancelling)
        except (NotFound, FormAlreadySettled):
            pass  # somebody else was faster
        except (ApiError, ClientError) as error:
            log.warning("%s stays open, the answer was refused: %s", request.id, error)
        except ServerError as error:
            await self._give_up(request, error)
        except McpError:
            pass  # the editor has gone: the request stays open
        finally:
            self._asked.pop(request.id, None)

    async def _give_up(self, request: Request, error: ServerError) -> None:
        """The editor could not ask. The model reads why, and goes on."""
        log.warning("the editor could not ask %s: %s", request.id, error)
        reason = f"The editor could not ask the user ({error.message[:500]}), so this was not approved."
        try:
            match request:
                case PermissionRequest():
                    await self._client.permissions.reply(
                        request.session_id, request_id=request.id, reply="reject", message=reason
                    )
                case QuestionRequest():
                    await self._client.questions.reject(request.session_id, request_id=request.id)
                case Form():
                    await self._client.forms.cancel(request.session_id, form_id=request.id)
        except (ApiError, ClientError):
            pass  # answered meanwhile


def _plain(event: Any, kind: Any) -> Any:
    """The request of a live event, as operations return it."""
    return kind(**{name: getattr(event, name) for name in kind.__struct_fields__})
