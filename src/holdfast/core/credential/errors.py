"""What connecting an integration can answer instead of a result.

IntegrationError
├── IntegrationNotFound     no such integration, or no such method of it
├── AttemptNotFound         no such sign-in, or it is over
├── CodeRequired            the sign-in waits for a code
├── AuthorizationFailed     the other side refused, or what it gave has expired for good
└── CredentialsUnreadable   the file of credentials is damaged; nothing is written over it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class IntegrationError(Exception):
    """Connecting was refused."""

    kind = "integration"


class IntegrationNotFound(IntegrationError):
    """No such integration or method."""

    kind = "integration_not_found"

    def __init__(self, integration_id: str, method: str | None = None) -> None:
        what = f"no method {method}" if method else "no such integration"
        super().__init__(f"{integration_id}: {what}")
        self.integration_id = integration_id


class AttemptNotFound(IntegrationError):
    """No such sign-in."""

    kind = "integration_attempt_not_found"

    def __init__(self, attempt_id: str) -> None:
        super().__init__(f"No such sign-in: {attempt_id}")
        self.attempt_id = attempt_id


class CodeRequired(IntegrationError):
    """The sign-in needs the code that the provider showed."""

    kind = "integration_code_required"

    def __init__(self, attempt_id: str) -> None:
        super().__init__("This sign-in is finished with the code that the provider shows")
        self.attempt_id = attempt_id


class AuthorizationFailed(IntegrationError):
    """The provider did not authorize."""

    kind = "integration_authorization"


class CredentialsUnreadable(IntegrationError):
    """The file of credentials cannot be understood."""

    kind = "integration_credentials"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is not a file of credentials ({reason}); move it away to start a new one")
