"""Approval links: shows the one request that a link is for, and answers it once.

Invariants
- A link allows once or rejects; it never saves an approval.
- Looking at a request does not use its link up. Answering does, in the commit of the answer.
- Used, expired and unknown links, and those of requests that are answered, get the same answer."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from holdfast.core.event.author import authored
from holdfast.core.page_access.approval_links import LinkUnusable
from holdfast.schema.exceptions import PermissionNotFound, SessionNotFound
from holdfast.schema.overview import OpenRequest
from holdfast.schema.record import Record
from holdfast.schema.rendered import PermissionPreview
from holdfast.server.caller import Caller
from holdfast.server.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.core.location.services import LocationServices
    from holdfast.core.page_access.approval_links import LinkedRequest
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.schema.permission import PermissionRequest
    from holdfast.schema.session import Session
    from holdfast.server.types import Scope

MESSAGE_CHARACTERS = 10_000
LINK = Caller("link", "approve")
"""Whoever has a link."""

Token = Annotated[str, msgspec.Meta(max_length=200)]


class ApprovalPayload(Record):
    token: Token


class ApprovalReplyPayload(Record):
    token: Token
    reply: Literal["once", "reject"]
    message: Annotated[str, msgspec.Meta(max_length=MESSAGE_CHARACTERS)] | None = None


class Approval(Record):
    request: OpenRequest
    preview: PermissionPreview


class Approvals:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._throttle = Throttle()

    async def show(self, scope: Scope, payload: ApprovalPayload) -> Approval:
        """Raises LinkUnusable and TooManyAttempts."""
        async with self._linked(scope, payload.token) as (services, link, session):
            permission = await services.permissions.get(link.session_id, link.request_id)
        from holdfast.server.call_preview import permission_preview  # brings everything that plans a change

        preview = await permission_preview(self._runtime, session, permission, LINK)
        return Approval(request=await self._described(link, session, permission), preview=preview)

    async def reply(self, scope: Scope, payload: ApprovalReplyPayload) -> None:
        """Raises LinkUnusable and TooManyAttempts."""
        async with self._linked(scope, payload.token) as (services, link, _):
            used = self._runtime.page_access.links.use(payload.token)
            with authored(LINK.name):
                await services.permissions.reply(
                    link.session_id, link.request_id, payload.reply, message=payload.message, before=(used,)
                )

    @asynccontextmanager
    async def _linked(self, scope: Scope, token: str) -> AsyncIterator[tuple[LocationServices, LinkedRequest, Session]]:
        """The services of the Session that asks, what the link is for, and the Session."""
        async with self._throttle.attempt(scope) as failed:
            try:
                link = await self._runtime.page_access.links.find(token)
            except LinkUnusable:
                failed()
                raise
        session = await self._runtime.store.find(link.session_id)
        if session is None:
            raise LinkUnusable
        try:
            async with self._runtime.locations.use(session.location) as services:
                yield services, link, session
        except (PermissionNotFound, SessionNotFound):  # answered or deleted meanwhile
            raise LinkUnusable from None

    async def _described(self, link: LinkedRequest, session: Session, permission: PermissionRequest) -> OpenRequest:
        ancestors = permission.ancestors or ()
        above = [await self._runtime.store.find(id) for id in ancestors]
        return OpenRequest(
            id=permission.id,
            kind="permission",
            session_id=session.id,
            ancestors=ancestors,
            titles=tuple(each.title if each is not None else "" for each in (*above, session)),
            directory=session.location.directory,
            agent=link.agent,
            since=link.since,
            permission=permission,
        )
