"""The wait of a call for a sign-in at its server: a form that a credential answers, whichever process stores it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.form.errors import FormAlreadySettled, FormNotFound
from holdfast.core.form.forms import FormDraft
from holdfast.core.form.sign_in import AUTHORIZATION, SIGNED_IN, token_digest
from holdfast.schema.form import ExternalField

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.core.form.forms import Forms
    from holdfast.core.mcp.authorization import ServerAuthorization

T = TypeVar("T")

SETTLE_SECONDS = 0.05


class AuthorizationWait:
    def __init__(self, forms: Forms, authorization: ServerAuthorization, server: str, session_id: str) -> None:
        self._forms = forms
        self._authorization = authorization
        self._server = server
        self._session_id = session_id

    async def run(self, refused: str | None, ask: Callable[[FormDraft], Awaitable[T]]) -> T:
        """`ask` shows the form and waits until it is settled. Another credential than the refused one settles it."""
        arriving = asyncio.ensure_future(self._authorization.arrival(refused))
        asking = asyncio.ensure_future(ask(self._draft(refused)))
        try:
            await asyncio.wait({asking, arriving}, return_when=asyncio.FIRST_COMPLETED)
            while not asking.done() and arriving.exception() is None:
                await self._settle()  # the form may not be recorded yet
                await asyncio.wait({asking}, timeout=SETTLE_SECONDS)
            return await asking
        finally:
            arriving.cancel()
            asking.cancel()
            await asyncio.wait({asking, arriving})

    def _draft(self, refused: str | None) -> FormDraft:
        id = self._authorization.integration_id
        page = ExternalField(
            key=SIGNED_IN,
            url=f"/api/session/{self._session_id}/integration/{id}/sign-in",
            title=f"Sign in to {self._server}",
            required=True,
        )
        about = {"kind": AUTHORIZATION, "server": self._server, "integrationID": id}
        return FormDraft(f"{self._server} needs a sign-in", (page,), about, {"refused": token_digest(refused)})

    async def _settle(self) -> None:
        """Answers every form of this Session that waits for the same sign-in."""
        for form in await self._forms.for_session(self._session_id):
            about = form.metadata or {}
            if (about.get("kind"), about.get("integrationID")) != (AUTHORIZATION, self._authorization.integration_id):
                continue
            try:
                await self._forms.reply(form.session_id, form.id, {SIGNED_IN: True})
            except (FormAlreadySettled, FormNotFound):
                continue
