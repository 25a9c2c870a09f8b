"""How a call can fail. The whole tree is drawn in schema/exceptions.py.

ApiError          the server declared this failure; its subclass tells which
ClientError       the way to the server and back failed; `reason` tells how
ActivityFailed    no call failed, but a Session's work did not complete; see `check_outcome`
└── StructuredOutputFailed  the model gave no answer in the form that the prompt asked for
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.schema.exceptions import ApiError as ApiError
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.insight import STRUCTURED_OUTPUT

if TYPE_CHECKING:
    from holdfast.schema.insight import Outcome

Reason = Literal["Transport", "UnexpectedStatus", "UnsupportedContentType", "MalformedResponse"]


class ClientError(HoldfastError):
    """The way to the server and back failed."""

    def __init__(self, reason: Reason, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status


class ActivityFailed(HoldfastError):
    """A Session's last activity did not complete; `outcome` says how it ended, or why it has not. `session_id` is the
    Session, if whoever raised it knew."""

    def __init__(self, outcome: Outcome, session_id: str | None = None) -> None:
        super().__init__(f"{outcome.type}: {outcome.error}" if outcome.error else outcome.type)
        self.outcome = outcome
        self.session_id = session_id


class StructuredOutputFailed(ActivityFailed):
    """The model gave no answer in the form that the prompt asked for, however often it was asked."""


def check_outcome(outcome: Outcome, session_id: str | None = None) -> Outcome:
    """The same outcome if the activity completed; raises ActivityFailed for any other, which is StructuredOutputFailed
    if the model gave no answer in the form that the prompt asked for."""
    if outcome.code == STRUCTURED_OUTPUT:
        raise StructuredOutputFailed(outcome, session_id)
    if outcome.type != "completed":
        raise ActivityFailed(outcome, session_id)
    return outcome
