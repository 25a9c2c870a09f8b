"""Why an integration cannot be connected.

IntegrationError (InvalidRequest)
├── IntegrationNotFound     no such integration, or no such method of it
├── AttemptNotFound         no such sign-in, or it is over
├── CodeRequired            the sign-in waits for a code
└── AuthorizationFailed     the provider did not authorize, or the authorization has expired for good
ServiceUnavailable
└── CredentialsUnreadable   the file of credentials is damaged; it is not overwritten
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.exceptions import InvalidRequest, ServiceUnavailable

if TYPE_CHECKING:
    from pathlib import Path


class IntegrationError(InvalidRequest):
    """An integration cannot be connected."""

    reason = "integration"
    """The `kind` of the request's failure."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind=self.reason)


class IntegrationNotFound(IntegrationError):
    """No such integration or method."""

    reason = "integration_not_found"

    def __init__(self, integration_id: str, method: str | None = None) -> None:
        what = f"no method {method}" if method else "no such integration"
        super().__init__(f"{integration_id}: {what}")
        self.integration_id = integration_id


class AttemptNotFound(IntegrationError):
    """No such sign-in."""

    reason = "integration_attempt_not_found"

    def __init__(self, attempt_id: str) -> None:
        super().__init__(f"No such sign-in: {attempt_id}")
        self.attempt_id = attempt_id


class CodeRequired(IntegrationError):
    """The sign-in needs the code that the provider showed."""

    reason = "integration_code_required"

    def __init__(self, attempt_id: str) -> None:
        super().__init__("This sign-in is finished with the code that the provider shows")
        self.attempt_id = attempt_id


class AuthorizationFailed(IntegrationError):
    """The provider did not authorize."""

    reason = "integration_authorization"


class CredentialsUnreadable(ServiceUnavailable):
    """The file of credentials cannot be decoded."""

    def __init__(self, path: Path, reason: str) -> None:
        message = f"{path} is not a file of credentials ({reason}); move it away to start a new one"
        super().__init__(message, service="credentials")
        self.path = path
