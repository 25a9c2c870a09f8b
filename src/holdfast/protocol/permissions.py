"""Permission requests, replies and saved approvals."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from holdfast.protocol.endpoint import Endpoint, LocationQuery, endpoint
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
from holdfast.schema.rendered import ApprovalLink, PermissionPreview

Texts = Annotated[tuple[str, ...], msgspec.Meta(max_length=1_000)]


class PermissionPath(Record):
    session_id: SessionIDField
    request_id: PermissionIDField


class SavedQuery(LocationQuery):
    """Saved approvals of the named project, else of the Location."""

    project_id: str | None = None


class SavedPath(Record):
    id: str


class PermissionPayload(Record):
    """`agent` is the Session's by default."""

    id: PermissionIDField | None = None
    action: str
    resources: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=1_000)]
    save: Texts | None = None
    metadata: dict[str, Any] | None = None
    source: PermissionSource | None = None
    agent: str | None = None


class PermissionReplyPayload(Record):
    """`save` selects from the offered patterns. Without it, `always` saves the patterns without a wildcard, or all if
    each has one."""

    reply: Reply
    message: str | None = None
    save: Texts | None = None


class LinkPayload(Record):
    seconds: Annotated[int, msgspec.Meta(ge=10, le=86_400)] | None = None
    """How long it is valid; 15 minutes by default."""


class Evaluation(Record):
    """`ask`: a request now waits for a reply."""

    id: PermissionIDField
    effect: Effect


_OF_SESSION = of_session(
    endpoint(
        "permissions.create",
        "POST /permission",
        "v2.session.permission.create",
        "Check an action of an agent against the rules, and ask the user if they require it. Never waits.",
        role="approve",  # it names what is saved if somebody allows it always
        payload=PermissionPayload,
        data=Evaluation,
        errors=(ConflictError,),
    ),
    endpoint(
        "permissions.list",
        "GET /permission",
        "v2.session.permission.list",
        "Pending permission requests of a Session and its descendants.",
        role="read",
        data=list[PermissionRequest],
    ),
    endpoint(
        "permissions.link",
        "POST /permission/{requestID}/link",
        "holdfast.session.permission.link",
        "Make a link with which a person answers one pending permission request once, without signing in. It expires.",
        role="approve",
        recorded=True,
        params=PermissionPath,
        payload=LinkPayload,
        data=ApprovalLink,
        errors=(PermissionNotFoundError,),
        extension=True,
    ),
    endpoint(
        "permissions.get",
        "GET /permission/{requestID}",
        "v2.session.permission.get",
        "One pending permission request of a Session or a descendant.",
        role="read",
        params=PermissionPath,
        data=PermissionRequest,
        errors=(PermissionNotFoundError,),
    ),
    endpoint(
        "permissions.preview",
        "GET /permission/{requestID}/preview",
        "holdfast.session.permission.preview",
        "What a pending permission request would allow, whole: the exact command, every change to files, or the input "
        "of the call.",
        role="read",
        params=PermissionPath,
        data=PermissionPreview,
        errors=(PermissionNotFoundError,),
        extension=True,
    ),
    endpoint(
        "permissions.reply",
        "POST /permission/{requestID}/reply",
        "v2.session.permission.reply",
        "Allow once, allow always, or reject a request of a Session or a descendant.",
        role="approve",
        params=PermissionPath,
        payload=PermissionReplyPayload,
        errors=(PermissionNotFoundError,),
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = (
    *at_location(
        endpoint(
            "permissions.list_requests",
            "GET /api/permission/request",
            "v2.permission.request.list",
            "Pending permission requests of a Location.",
            role="read",
            location=list[PermissionRequest],
        ),
        endpoint(
            "permissions.list_saved",
            "GET /api/permission/saved",
            "v2.permission.saved.list",
            "Saved approvals of a Location or a project.",
            role="read",
            query=SavedQuery,
            data=list[SavedApproval],
        ),
    ),
    endpoint(
        "permissions.remove_saved",
        "DELETE /api/permission/saved/{id}",
        "v2.permission.saved.remove",
        "Delete a saved approval. An unknown id is accepted.",
        role="approve",
        recorded=True,
        params=SavedPath,
    ),
    *_OF_SESSION,
)
