"""Permission requests, their answers, and what was approved for good."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from holdfast.protocol.endpoint import Endpoint, Envelope, LocationQuery
from holdfast.protocol.scope import at_location, of_session
from holdfast.schema.errors import ConflictError, PermissionNotFoundError
from holdfast.schema.ids import SessionIDField
from holdfast.schema.permission import (
    Effect,
    PermissionIDField,
    PermissionRequest,
    PermissionSource,
    Reply,
    SavedApproval,
)
from holdfast.schema.record import Record

Texts = Annotated[tuple[str, ...], msgspec.Meta(max_length=1_000)]


class PermissionPath(Record):
    session_id: SessionIDField
    request_id: PermissionIDField


class SavedQuery(LocationQuery):
    """Of a project if one is named, else of the Location."""

    project_id: str | None = None


class SavedPath(Record):
    id: str


class PermissionPayload(Record):
    """`agent` is the Session's own unless it is named."""

    id: PermissionIDField | None = None
    action: str
    resources: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=1_000)]
    save: Texts | None = None
    metadata: dict[str, Any] | None = None
    source: PermissionSource | None = None
    agent: str | None = None


class PermissionReplyPayload(Record):
    """`save` chooses among the offered patterns; without it, `always` saves those without a star, or all if
    each has one."""

    reply: Reply
    message: str | None = None
    save: Texts | None = None


class Evaluation(Record):
    """`ask` means that a request now waits for a reply."""

    id: PermissionIDField
    effect: Effect


_OF_SESSION = (
    Endpoint(
        group="permissions",
        name="create",
        operation="v2.session.permission.create",
        method="POST",
        path="/permission",
        summary="Evaluate what an agent wants to do, and ask a person where the rules say so. Never waits.",
        payload=PermissionPayload,
        envelope=Envelope.DATA,
        success=Evaluation,
        errors=(ConflictError,),
    ),
    Endpoint(
        group="permissions",
        name="list",
        operation="v2.session.permission.list",
        method="GET",
        path="/permission",
        summary="What waits for a reply in a Session.",
        envelope=Envelope.DATA,
        success=list[PermissionRequest],
    ),
    Endpoint(
        group="permissions",
        name="get",
        operation="v2.session.permission.get",
        method="GET",
        path="/permission/{requestID}",
        summary="One request that waits.",
        params=PermissionPath,
        envelope=Envelope.DATA,
        success=PermissionRequest,
        errors=(PermissionNotFoundError,),
    ),
    Endpoint(
        group="permissions",
        name="reply",
        operation="v2.session.permission.reply",
        method="POST",
        path="/permission/{requestID}/reply",
        summary="Allow once, allow for good, or reject.",
        params=PermissionPath,
        payload=PermissionReplyPayload,
        envelope=Envelope.VOID,
        errors=(PermissionNotFoundError,),
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = (
    at_location(
        Endpoint(
            group="permissions",
            name="list_requests",
            operation="v2.permission.request.list",
            method="GET",
            path="/api/permission/request",
            summary="What waits for a reply in a Location.",
            envelope=Envelope.LOCATION,
            success=list[PermissionRequest],
        )
    ),
    at_location(
        Endpoint(
            group="permissions",
            name="list_saved",
            operation="v2.permission.saved.list",
            method="GET",
            path="/api/permission/saved",
            summary="What was approved for good, in a Location or a project.",
            query=SavedQuery,
            envelope=Envelope.DATA,
            success=list[SavedApproval],
        )
    ),
    Endpoint(
        group="permissions",
        name="remove_saved",
        operation="v2.permission.saved.remove",
        method="DELETE",
        path="/api/permission/saved/{id}",
        summary="Forget an approval; an unknown one is fine.",
        params=SavedPath,
        envelope=Envelope.VOID,
    ),
    *map(of_session, _OF_SESSION),
)
