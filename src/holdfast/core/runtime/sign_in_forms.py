"""Answers the forms that wait for a sign-in as soon as there is a credential, also where no process waits with them:
the call goes on in the next one that executes the Session.

Nobody is woken by a process that only runs one command."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.core.credential.store import OAuthValue
from holdfast.core.database.errors import StorageError
from holdfast.core.form.sign_in import SIGNED_IN, token_digest
from holdfast.core.session.errors import AlreadyAnswered
from holdfast.schema.codec import decode_any, decoder
from holdfast.schema.form import Form
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import FormRepliedLive
from holdfast.schema.location import Location
from holdfast.schema.session_event import FormReplied

if TYPE_CHECKING:
    from holdfast.core.clock import Clock
    from holdfast.core.credential.store import CredentialStore
    from holdfast.core.database.database import Database
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.wakeups import Wakeups

log = logging.getLogger(__name__)


class SignInForms:
    """One per process. `goes_on` is whether it executes Sessions that other processes left."""

    def __init__(
        self,
        events: EventLog,
        database: Database,
        credentials: CredentialStore,
        clock: Clock,
        wakeups: Wakeups,
        *,
        goes_on: bool,
    ) -> None:
        self._events = events
        self._database = database
        self._credentials = credentials
        self._clock = clock
        self._wakeups = wakeups
        self._goes_on = goes_on
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stop = credentials.on_change(self._changed)

    async def close(self) -> None:
        self._stop()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def answer(self, integration_id: str | None = None) -> None:
        """Answer the open forms of one integration, or of all, whose credential has arrived."""
        rows = await self._database.fetch(
            "form.open_of_integration", {"integration_id": integration_id}, into=_OpenSignIn
        )
        for row in rows:
            form = decoder(Form).decode(row.data)
            if self._arrived(str((form.metadata or {}).get("integrationID")), row.held):
                await self._reply(form, Location(directory=row.directory, workspace_id=row.workspace_id))

    def _arrived(self, integration_id: str, held: str | None) -> bool:
        refused = (decode_any(held) if held is not None else {}).get("refused")
        values = [credential.value for credential in self._credentials.all(integration_id)[:1]]
        return any(isinstance(value, OAuthValue) and token_digest(value.access) != refused for value in values)

    async def _reply(self, form: Form, location: Location) -> None:
        given: dict[str, Any] = {SIGNED_IN: True}
        replied = FormReplied(timestamp=self._clock.now(), session_id=form.session_id, request_id=form.id, answer=given)
        executing = self._wakeups.executing(form.session_id)
        try:
            await self._events.publish(replied, location=location)
        except AlreadyAnswered:
            return
        if executing:
            return  # whoever waits for the form here tells of it
        told = FormRepliedLive(id=form.id, session_id=form.session_id, answer=given, ancestors=form.ancestors)
        self._events.announce(told, location=location)
        if self._goes_on:
            self._wakeups.session(form.session_id)

    def _changed(self, integration_id: str) -> None:
        task = asyncio.get_running_loop().create_task(self.answer(integration_id), name="holdfast-sign-in")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), StorageError):
            log.warning("a form that waits for a sign-in: %s", error)


class _OpenSignIn(Frozen):
    session_id: str
    data: str
    held: str | None
    directory: str
    workspace_id: str | None
