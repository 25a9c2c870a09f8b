"""How a call can fail.

ApiError      the server declared this failure; look at `tag`, not at the class
ClientError   anything else between here and there; `reason` says what
"""

from __future__ import annotations

from typing import Any, Literal

Reason = Literal["Transport", "UnexpectedStatus", "UnsupportedContentType", "MalformedResponse"]


class ApiError(Exception):
    """A failure that the operation declares."""

    def __init__(self, tag: str, status: int, body: dict[str, Any]) -> None:
        super().__init__(str(body.get("message", tag)))
        self.tag = tag
        self.status = status
        self.body = body


class ClientError(Exception):
    """A failure of the way there or back."""

    def __init__(self, reason: Reason, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
