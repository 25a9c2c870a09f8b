"""How a permission request ends other than in approval.

PermissionDenied             the call fails; the model reads why and goes on
├── DeniedByRule             a rule denies the call
└── DeniedWithFeedback       a person denied the call and said what to do instead
TurnEnded                    the turn ends without a tool result
├── DeniedByPerson           a person denied the call
└── …                        a person dismissed a question (core/question/errors.py)
PermissionNotFound           no such request waits for an answer here
InvalidSave                  the request does not offer this pattern for approval
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.exceptions import HoldfastError, InvalidRequest
from holdfast.schema.exceptions import PermissionNotFound as PermissionNotFound
from holdfast.schema.permission import NOBODY_TO_ASK as NOBODY_TO_ASK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.permission.rules import AncestorAuthority
    from holdfast.schema.permission import Rule

FEEDBACK_CHARACTERS = 2_000
RESOURCE_CHARACTERS = 500
NAME_CHARACTERS = 100

DENIED = "Permission denied: {action} {resource}"
CORRECTED = "The user rejected this action and said: {feedback}"
REQUEST_DENIED = "the permission request was denied"
"""Why something was not done for which a person denied the permission, where no turn ends with that."""
NOBODY_ANSWERS = (
    "it needs approval and this program answers no requests; it can register a function with `on_permission`, wait for "
    'answers from elsewhere with unattended="wait", or allow changes with preset="allow"'
)
"""In the failure of a call for which only the preset of an embedded host asks, while nobody would see the request."""
TOO_MANY_WAIT = "too many requests of this Session already wait for an answer"
ABOVE_DENIES = "{agent} of Session {session} may not do it, and this Session works for that one"
ABOVE_HAS_NO_AGENT = "{agent} of Session {session} does not exist, and this Session works for that one"
ABOVE_IS_GONE = "this Session works for Session {session}, which does not exist any more"


class PermissionDenied(HoldfastError):
    """A tool call is denied. The text is the tool's failure, which the model reads."""


class DeniedByRule(PermissionDenied):
    """`rules` are all rules about the action. The text does not tell what the resource is or contains."""

    code = "PermissionV2.BlockedError"

    def __init__(
        self, action: str, resources: Sequence[str], rules: Sequence[Rule] = (), *, reason: str | None = None
    ) -> None:
        shown = _shorten(", ".join(resources), RESOURCE_CHARACTERS)
        super().__init__(DENIED.format(action=action, resource=shown) + (f" ({reason})" if reason else ""))
        self.action = action
        self.resources = tuple(resources)
        self.rules = tuple(rules)
        self.reason = reason


class DeniedWithFeedback(PermissionDenied):
    """A person denied the call and said why, or what to do instead."""

    code = "PermissionV2.CorrectedError"

    def __init__(self, feedback: str) -> None:
        super().__init__(CORRECTED.format(feedback=_shorten(feedback, FEEDBACK_CHARACTERS)))
        self.feedback = feedback


class TurnEnded(HoldfastError):
    """A person's answer ends the turn. It is raised through the tool that asked, and must not become a tool failure."""


class DeniedByPerson(TurnEnded):
    """A person denied the call, or nobody can answer any more."""

    code = "PermissionV2.DeclinedError"

    def __init__(self, request_id: str) -> None:
        super().__init__(f"The permission request {request_id} was denied")
        self.request_id = request_id


class InvalidSave(InvalidRequest):
    """The request does not offer this pattern for approval."""

    code = "PermissionV2.InvalidSaveError"

    def __init__(self, request_id: str, patterns: Sequence[str]) -> None:
        offered = ", ".join(_shorten(pattern, RESOURCE_CHARACTERS) for pattern in patterns)
        message = f"Permission request {request_id} does not offer to save: {offered}"
        super().__init__(message, kind="Payload", field="save")
        self.request_id = request_id
        self.patterns = tuple(patterns)


def denied_above(ancestor: AncestorAuthority) -> str:
    """Why an ancestor denies something to a child."""
    agent = "the default agent" if ancestor.agent is None else f"the agent {_shorten(ancestor.agent, NAME_CHARACTERS)}"
    texts = {None: ABOVE_DENIES, "agent": ABOVE_HAS_NO_AGENT, "session": ABOVE_IS_GONE}
    return texts[ancestor.missing].format(agent=agent, session=ancestor.session_id)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"
