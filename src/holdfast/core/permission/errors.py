"""How a permission can end other than in approval.

Refusal               the model may read why, and go on
├── Blocked           policy says no
└── Corrected         a person said no, and what to do instead
Declined              a person said no: the turn stops, and no tool result comes of it
PermissionNotFound    no such request waits for an answer here
InvalidSave           an approval of something that was not offered
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.permission.stop import Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.permission import Rule

FEEDBACK_CHARACTERS = 2_000
RESOURCE_CHARACTERS = 500

DENIED = "Permission denied: {action} {resource}"
CORRECTED = "The user rejected this action and said: {feedback}"
NOBODY_TO_ASK = "it needs approval and nobody is here to give it"
TOO_MANY_WAIT = "too many requests of this Session already wait for an answer"


class Refusal(Exception):
    """A tool may not go on, and its failure is `for_model()`."""

    def for_model(self) -> str:
        return str(self)


class Blocked(Refusal):
    """Policy denies it. `rules` are those with a say in the action; what the target is or holds is not told."""

    tag = "PermissionV2.BlockedError"

    def __init__(
        self, action: str, resources: Sequence[str], rules: Sequence[Rule] = (), *, reason: str | None = None
    ) -> None:
        shown = _cut(", ".join(resources), RESOURCE_CHARACTERS)
        super().__init__(DENIED.format(action=action, resource=shown) + (f" ({reason})" if reason else ""))
        self.action = action
        self.resources = tuple(resources)
        self.rules = tuple(rules)
        self.reason = reason


class Corrected(Refusal):
    """A person rejected it and said why, or what to do instead."""

    tag = "PermissionV2.CorrectedError"

    def __init__(self, feedback: str) -> None:
        super().__init__(CORRECTED.format(feedback=_cut(feedback, FEEDBACK_CHARACTERS)))
        self.feedback = feedback


class Declined(Stopped):
    """A person rejected it, or nobody can answer any more. Never a tool result: the turn stops here."""

    tag = "PermissionV2.DeclinedError"

    def __init__(self, request_id: str) -> None:
        super().__init__(f"The permission request {request_id} was declined")
        self.request_id = request_id


class PermissionNotFound(Exception):
    """No such request waits here: unknown, answered already, or another Session's."""

    tag = "PermissionV2.NotFoundError"

    def __init__(self, request_id: str) -> None:
        super().__init__(f"Permission request not found: {request_id}")
        self.request_id = request_id


class InvalidSave(Exception):
    """A pattern to save that the request did not offer."""

    tag = "PermissionV2.InvalidSaveError"

    def __init__(self, request_id: str, patterns: Sequence[str]) -> None:
        offered = ", ".join(_cut(pattern, RESOURCE_CHARACTERS) for pattern in patterns)
        super().__init__(f"Permission request {request_id} does not offer to save: {offered}")
        self.request_id = request_id
        self.patterns = tuple(patterns)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"
