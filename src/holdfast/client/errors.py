"""How a call can fail.

ApiError      the server declared this failure; look at `tag`, not at the class
ClientError   anything else between here and there; `reason` says what

ActivityFailed is no failure of a call: it says that a Session did not come to a good end, see `check_outcome`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from holdfast.schema.insight import Outcome

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


class ActivityFailed(Exception):
    """A Session's last activity did not complete; `outcome` says how it ended, or why it has not."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.type}: {outcome.error}" if outcome.error else outcome.type)
        self.outcome = outcome


def check_outcome(outcome: Outcome) -> Outcome:
    """The same outcome if the activity completed; raises ActivityFailed for any other."""
    if outcome.type != "completed":
        raise ActivityFailed(outcome)
    return outcome
