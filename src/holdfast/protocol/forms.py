"""Forms for a person to fill in, with the paths of OpenCode 2.0."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, EndpointScope, LocationQuery, endpoint
from holdfast.protocol.scope import at_location, of_session
from holdfast.schema.errors import (
    ConflictError,
    FormAlreadySettledError,
    FormInvalidAnswerError,
    FormNotFoundError,
    NotFoundError,
    SessionNotFoundError,
)
from holdfast.schema.form import Form, FormAnswer, FormField, FormIDField, FormOwnerField, FormState
from holdfast.schema.ids import SessionIDField
from holdfast.schema.record import Record


class FormOwnerPath(Record):
    session_id: FormOwnerField


class FormPath(Record):
    session_id: FormOwnerField
    form_id: FormIDField


class SignInPath(Record):
    session_id: SessionIDField
    integration_id: str


class FormPayload(Record):
    id: FormIDField | None = None
    title: str
    metadata: dict[str, Any] | None = None
    fields: Annotated[tuple[FormField, ...], msgspec.Meta(max_length=1_000)]


class FormAnswerPayload(Record):
    answer: FormAnswer


class CancelFormPayload(Record):
    decline: bool | None = None
    """Whether the person says no to what was asked. OpenCode has no such field."""


_OF_OWNER = (
    endpoint(
        "forms.list",
        "GET /form",
        "v2.session.form.list",
        "Pending forms of a Session and its descendants, or with `global` those that belong to no Session.",
        role="read",
        params=FormOwnerPath,
        data=list[Form],
    ),
    endpoint(
        "forms.create",
        "POST /form",
        "v2.session.form.create",
        "Ask a person to fill in a form. Read its state to get the answer.",
        role="prompt",
        params=FormOwnerPath,
        payload=FormPayload,
        data=Form,
        errors=(ConflictError,),
    ),
    endpoint(
        "forms.get",
        "GET /form/{formID}",
        "v2.session.form.get",
        "A form of a Session or a descendant, settled or not.",
        role="read",
        params=FormPath,
        data=Form,
        errors=(FormNotFoundError,),
    ),
    endpoint(
        "forms.state",
        "GET /form/{formID}/state",
        "v2.session.form.state",
        "Whether a form is pending, cancelled or answered, with the answer.",
        role="read",
        params=FormPath,
        data=FormState,
        errors=(FormNotFoundError,),
    ),
    endpoint(
        "forms.reply",
        "POST /form/{formID}/reply",
        "v2.session.form.reply",
        "Answer a form of a Session or a descendant.",
        role="approve",
        params=FormPath,
        payload=FormAnswerPayload,
        errors=(FormNotFoundError, FormAlreadySettledError, FormInvalidAnswerError),
    ),
    endpoint(
        "forms.cancel",
        "POST /form/{formID}/cancel",
        "v2.session.form.cancel",
        "Cancel a form of a Session or a descendant.",
        role="approve",
        params=FormPath,
        payload=CancelFormPayload,
        errors=(FormNotFoundError, FormAlreadySettledError),
    ),
)


def _of_owner(given: Endpoint) -> Endpoint:
    return replace(
        given,
        path=f"/api/session/{{sessionID}}{given.path}",
        query=LocationQuery,
        errors=(*given.errors, SessionNotFoundError),
        scope=EndpointScope.FORM,
        extension=True,
    )


_SIGN_IN = of_session(
    endpoint(
        "integrations.sign_in_page",
        "GET /integration/{integrationID}/sign-in",
        "holdfast.session.integration.sign-in",
        "Begin the sign-in that a form of the Session asks for: a page that leads a browser to the service.",
        role="admin",
        params=SignInPath,
        raw=bytes,
        errors=(NotFoundError,),
        handler="sign_in.page",
        extension=True,
    )
)

ENDPOINTS: tuple[Endpoint, ...] = (
    *(
        replace(given, extension=True)
        for given in at_location(
            endpoint(
                "forms.list_requests",
                "GET /api/form/request",
                "v2.form.request.list",
                "Pending forms of a Location.",
                role="read",
                location=list[Form],
            )
        )
    ),
    *map(_of_owner, _OF_OWNER),
    *_SIGN_IN,
)
