"""Answers the forms that wait for a sign-in where no process waits: their calls were left by processes that ended. A
credential that arrives, from whichever process, lets such a call go on in this one.

A process that only runs one command leaves this to the next host."""

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
    from collections.abc import Coroutine

    from holdfast.core.clock import Clock
    from holdfast.core.credential.store import CredentialStore
    from holdfast.core.database.database import Database
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.wakeups import Wakeups

LOOK_SECONDS = 1.0
"""How often a host looks whether the file of credentials has changed."""

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
        self._tasks: set[asyncio.Task[Any]] = set()
        self._looking: asyncio.Task[Any] | None = None
        self._stop = credentials.on_change(self._changed) if goes_on else lambda: None

    async def start(self) -> None:
        """At the start of a host: answer what was signed in for meanwhile. Then look for what follows, also for calls
        that other processes leave later."""
        seen = self._credentials.stamp()
        await self.answer()
        self._looking = self._run(self._look(seen))

    async def close(self) -> None:
        self._stop()
        if self._looking is not None:
            self._looking.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def answer(self, integration_id: str | None = None) -> None:
        """Answer the open forms of one integration, or of all, whose credential has arrived. Those of Sessions that run
        here are left to who waits for them."""
        rows = await self._database.fetch(
            "form.open_of_integration", {"integration_id": integration_id}, into=_OpenSignIn
        )
        for row in rows:
            form = decoder(Form).decode(row.data)
            id, refused = _integration(form), (decode_any(row.held) if row.held is not None else {}).get("refused")
            if self._wakeups.executing(form.session_id):
                continue
            if (token := self._token(id)) is not None and token != refused:
                await self._reply(form, Location(directory=row.directory, workspace_id=row.workspace_id))

    async def _look(self, seen: object) -> None:
        """The forms are read only when credentials have changed."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            if (stamp := self._credentials.stamp()) != seen:
                seen = stamp
                await self._answer_all()

    async def _answer_all(self) -> None:
        try:
            await self.answer()
        except StorageError as error:
            log.warning("a form that waits for a sign-in: %s", error)

    def _token(self, integration_id: str) -> str | None:
        found = next(iter(self._credentials.all(integration_id)), None)
        value = found.value if found is not None else None
        return token_digest(value.access) if isinstance(value, OAuthValue) else None

    async def _reply(self, form: Form, location: Location) -> None:
        given: dict[str, Any] = {SIGNED_IN: True}
        replied = FormReplied(timestamp=self._clock.now(), session_id=form.session_id, request_id=form.id, answer=given)
        try:
            await self._events.publish(replied, location=location)
        except AlreadyAnswered:
            return
        told = FormRepliedLive(id=form.id, session_id=form.session_id, answer=given, ancestors=form.ancestors)
        self._events.announce(told, location=location)
        self._wakeups.session(form.session_id)

    def _changed(self, integration_id: str) -> None:
        self._run(self.answer(integration_id))

    def _run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name="holdfast-sign-in")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), StorageError):
            log.warning("a form that waits for a sign-in: %s", error)


def _integration(form: Form) -> str:
    return str((form.metadata or {}).get("integrationID"))


class _OpenSignIn(Frozen):
    session_id: str
    data: str
    held: str | None
    directory: str
    workspace_id: str | None
