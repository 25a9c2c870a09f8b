"""Connections to the services of providers. Keys can be stored but never read."""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import at_location
from holdfast.schema.catalog import Attempt, AttemptStatus, IntegrationInfo
from holdfast.schema.errors import ServiceUnavailableError
from holdfast.schema.record import Record

Label = Annotated[str, msgspec.Meta(max_length=200)]


class IntegrationPath(Record):
    integration_id: str


class AttemptPath(Record):
    attempt_id: str


class CredentialPath(Record):
    credential_id: str


class KeyPayload(Record):
    key: Annotated[str, msgspec.Meta(max_length=64 * 1024)]
    label: Label | None = None


class OAuthPayload(Record):
    method_id: str
    inputs: dict[str, str]
    label: Label | None = None


class CompletePayload(Record):
    code: str | None = None


class CredentialPayload(Record):
    label: Label


ENDPOINTS: tuple[Endpoint, ...] = at_location(
    endpoint(
        "integrations.list",
        "GET /api/integration",
        "v2.integration.list",
        "The integrations, with their connection methods and current connections.",
        role="read",
        location=list[IntegrationInfo],
    ),
    endpoint(
        "integrations.get",
        "GET /api/integration/{integrationID}",
        "v2.integration.get",
        "One integration, or null.",
        role="read",
        params=IntegrationPath,
        location=IntegrationInfo | None,
    ),
    endpoint(
        "integrations.connect_key",
        "POST /api/integration/{integrationID}/connect/key",
        "v2.integration.connect.key",
        "Store a key. It replaces the current credential.",
        role="admin",
        params=IntegrationPath,
        payload=KeyPayload,
        errors=(ServiceUnavailableError,),
    ),
    endpoint(
        "integrations.connect_oauth",
        "POST /api/integration/{integrationID}/connect/oauth",
        "v2.integration.connect.oauth",
        "Start a sign-in that the user completes in a browser.",
        role="admin",
        params=IntegrationPath,
        payload=OAuthPayload,
        location=Attempt,
    ),
    endpoint(
        "integrations.attempt_status",
        "GET /api/integration/attempt/{attemptID}",
        "v2.integration.attempt.status",
        "The status of a sign-in.",
        role="read",
        params=AttemptPath,
        location=AttemptStatus,
    ),
    endpoint(
        "integrations.attempt_complete",
        "POST /api/integration/attempt/{attemptID}/complete",
        "v2.integration.attempt.complete",
        "Finish a sign-in with the code that the provider showed.",
        role="admin",
        params=AttemptPath,
        payload=CompletePayload,
        errors=(ServiceUnavailableError,),
    ),
    endpoint(
        "integrations.attempt_cancel",
        "DELETE /api/integration/attempt/{attemptID}",
        "v2.integration.attempt.cancel",
        "Cancel a sign-in. An unknown id is accepted.",
        role="admin",
        params=AttemptPath,
    ),
    endpoint(
        "credentials.update",
        "PATCH /api/credential/{credentialID}",
        "v2.credential.update",
        "Change the label of a stored credential. An unknown id is accepted.",
        role="admin",
        params=CredentialPath,
        payload=CredentialPayload,
        errors=(ServiceUnavailableError,),
        handler="integrations.update_credential",
    ),
    endpoint(
        "credentials.remove",
        "DELETE /api/credential/{credentialID}",
        "v2.credential.remove",
        "Delete a stored credential. An unknown id is accepted.",
        role="admin",
        params=CredentialPath,
        errors=(ServiceUnavailableError,),
        handler="integrations.remove_credential",
    ),
)
