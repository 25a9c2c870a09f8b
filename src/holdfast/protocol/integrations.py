"""Connecting to the services behind providers. Keys go in and never come out."""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.protocol.endpoint import Endpoint, Envelope
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


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    map(
        at_location,
        (
            Endpoint(
                group="integrations",
                name="list",
                operation="v2.integration.list",
                method="GET",
                path="/api/integration",
                summary="What can be connected, how, and what it is connected with.",
                envelope=Envelope.LOCATION,
                success=list[IntegrationInfo],
            ),
            Endpoint(
                group="integrations",
                name="get",
                operation="v2.integration.get",
                method="GET",
                path="/api/integration/{integrationID}",
                summary="One integration, or nothing.",
                params=IntegrationPath,
                envelope=Envelope.LOCATION,
                success=IntegrationInfo | None,
            ),
            Endpoint(
                group="integrations",
                name="connect_key",
                operation="v2.integration.connect.key",
                method="POST",
                path="/api/integration/{integrationID}/connect/key",
                summary="Store a key; it takes the place of an earlier credential.",
                params=IntegrationPath,
                payload=KeyPayload,
                envelope=Envelope.VOID,
                errors=(ServiceUnavailableError,),
            ),
            Endpoint(
                group="integrations",
                name="connect_oauth",
                operation="v2.integration.connect.oauth",
                method="POST",
                path="/api/integration/{integrationID}/connect/oauth",
                summary="Begin a sign-in that a person finishes elsewhere.",
                params=IntegrationPath,
                payload=OAuthPayload,
                envelope=Envelope.LOCATION,
                success=Attempt,
            ),
            Endpoint(
                group="integrations",
                name="attempt_status",
                operation="v2.integration.attempt.status",
                method="GET",
                path="/api/integration/attempt/{attemptID}",
                summary="How a sign-in stands.",
                params=AttemptPath,
                envelope=Envelope.LOCATION,
                success=AttemptStatus,
            ),
            Endpoint(
                group="integrations",
                name="attempt_complete",
                operation="v2.integration.attempt.complete",
                method="POST",
                path="/api/integration/attempt/{attemptID}/complete",
                summary="Finish a sign-in with the code that the provider showed.",
                params=AttemptPath,
                payload=CompletePayload,
                envelope=Envelope.VOID,
                errors=(ServiceUnavailableError,),
            ),
            Endpoint(
                group="integrations",
                name="attempt_cancel",
                operation="v2.integration.attempt.cancel",
                method="DELETE",
                path="/api/integration/attempt/{attemptID}",
                summary="Give a sign-in up; an unknown one is fine.",
                params=AttemptPath,
                envelope=Envelope.VOID,
            ),
            Endpoint(
                group="credentials",
                name="update",
                operation="v2.credential.update",
                method="PATCH",
                path="/api/credential/{credentialID}",
                summary="Give a stored credential another label; an unknown one is fine.",
                params=CredentialPath,
                payload=CredentialPayload,
                envelope=Envelope.VOID,
                errors=(ServiceUnavailableError,),
            ),
            Endpoint(
                group="credentials",
                name="remove",
                operation="v2.credential.remove",
                method="DELETE",
                path="/api/credential/{credentialID}",
                summary="Forget a stored credential; an unknown one is fine.",
                params=CredentialPath,
                envelope=Envelope.VOID,
                errors=(ServiceUnavailableError,),
            ),
        ),
    )
)
