"""Permission rules, requests and replies. The last matching rule decides."""

from typing import Annotated, Any, Literal

import msgspec

from holdfast.schema.ids import SessionIDField
from holdfast.schema.record import Record

Effect = Literal["allow", "deny", "ask"]
RuleEffect = Literal["allow", "deny", "ask", "ask-changes"]
"""`ask-changes` allows commands that are proved to change nothing, and asks for everything else."""
Reply = Literal["once", "always", "reject"]
PermissionIDField = Annotated[str, msgspec.Meta(pattern="^per")]
NOBODY_TO_ASK = "it needs approval and nobody is here to give it"
"""In the failure of a call that was denied because no person can be asked."""


class Rule(Record):
    action: str
    resource: str
    effect: RuleEffect


class PermissionSource(Record, tag_field="type", tag="tool"):
    message_id: str
    call_id: str


class PermissionRequest(Record):
    """A request to the user. `save` are the patterns that `always` would store."""

    id: PermissionIDField
    session_id: SessionIDField
    action: str
    resources: tuple[str, ...]
    save: tuple[str, ...] | None = None
    metadata: dict[str, Any] | None = None
    source: PermissionSource | None = None
    ancestors: tuple[SessionIDField, ...] | None = None
    """The Sessions above the one that asks, root first; without a parent there are none."""


class SavedApproval(Record):
    id: str
    project_id: str
    action: str
    resource: str
