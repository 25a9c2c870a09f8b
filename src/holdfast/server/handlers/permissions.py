"""Handlers of `protocol/permissions.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.permission.permission import Wish
from holdfast.protocol.permissions import Evaluation
from holdfast.schema.rendered import ApprovalLink
from holdfast.server.asking import asking
from holdfast.server.project_reach import check_saving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.protocol import permissions as protocol
    from holdfast.schema.permission import PermissionRequest, SavedApproval
    from holdfast.schema.rendered import PermissionPreview
    from holdfast.server.types import ApiCall


async def list_requests(call: ApiCall) -> Sequence[PermissionRequest]:
    async with call.services as services:
        return await services.permissions.list()


async def list_saved(call: ApiCall) -> Sequence[SavedApproval]:
    async with call.services as services:
        if call.query.project_id is not None:
            call.caller.check_all_projects("the approvals of a project by its id")
            return await services.permissions.saved.of_project(call.query.project_id)
        return await services.permissions.saved.here()


async def remove_saved(call: ApiCall) -> None:
    async with call.runtime.locations.use(call.runtime.location) as services:
        await services.permissions.saved.remove(call.params.id)


async def create(call: ApiCall) -> Evaluation:
    payload: protocol.PermissionPayload = call.payload
    assert call.session is not None
    async with call.services as services:
        asked = await services.permissions.ask(
            Wish(
                session_id=call.session.id,
                agent=services.agents.select(payload.agent or call.session.agent).id,
                action=payload.action,
                resources=payload.resources,
                save=payload.save or (),
                metadata=payload.metadata,
                source=payload.source,
                id=payload.id,
            )
        )
    return Evaluation(id=asked.id, effect=asked.effect)


async def list(call: ApiCall) -> Sequence[PermissionRequest]:
    async with call.services as services:
        return await services.permissions.of_tree(call.params.session_id)


async def get(call: ApiCall) -> PermissionRequest:
    async with asking(call) as (services, session):
        return await services.permissions.get(session.id, call.params.request_id)


async def link(call: ApiCall) -> ApprovalLink:
    payload: protocol.LinkPayload = call.payload
    async with asking(call) as (services, session):
        request = await services.permissions.get(session.id, call.params.request_id)
    links = call.runtime.page_access.links
    made = await links.make(session.id, request.id, payload.seconds, token_id=call.caller.token)
    return ApprovalLink(path=f"/#/approve/{made.token}", expires=made.expires)


async def preview(call: ApiCall) -> PermissionPreview:
    from holdfast.server.call_preview import permission_preview  # brings everything that plans a change

    async with asking(call) as (services, session):
        request = await services.permissions.get(session.id, call.params.request_id)
    return await permission_preview(call.runtime, session, request, call.caller)


async def reply(call: ApiCall) -> None:
    payload: protocol.PermissionReplyPayload = call.payload
    async with asking(call) as (services, session):
        if payload.reply == "always":
            await check_saving(call, session)
        await services.permissions.reply(
            session.id, call.params.request_id, payload.reply, message=payload.message, save=payload.save
        )
