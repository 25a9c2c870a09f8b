"""The wait of a Session for a subagent, with what that one waits for, down to the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen
from holdfast.schema.insight import WaitCause, WaitInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

NEEDS_PERSON = ("permission", "question", "form", "authorization", "blocked", "recovery", "budget")
"""Kinds of waits that last until somebody does something."""
DESCRIPTION_CHARACTERS = 100


class Delegation(Frozen):
    """A call that waits for a child."""

    call_id: str
    since: int
    child_id: str
    agent: str
    description: str


def subagent_wait(call: Delegation, below: Sequence[WaitInfo]) -> WaitInfo:
    """`below` is what the child waits for."""
    what = f"subagent {call.child_id} ({call.agent}: {call.description[:DESCRIPTION_CHARACTERS]})"
    cause = _cause(call.child_id, below)
    if cause is not None:
        where = f" in {cause.session_id}" if cause.session_id != call.child_id else ""
        what = f"{what}, which waits for {cause.what}{where}"
    return WaitInfo(
        kind="subagent",
        since=call.since,
        what=what,
        ends=f"the subagent ends, or an interruption; there: {cause.ends}" if cause else "the subagent ends",
        id=call.call_id,
        session_id=call.child_id,
        cause=cause,
    )


def _cause(child_id: str, below: Sequence[WaitInfo]) -> WaitCause | None:
    """The wait that needs a person, or else the first."""
    causes = [
        wait.cause
        or WaitCause(
            session_id=wait.session_id or child_id,
            kind=wait.kind,
            since=wait.since,
            what=wait.what,
            ends=wait.ends,
            id=wait.id,
            budget=wait.budget,
        )
        for wait in below
        if wait.kind != "owner"
    ]
    urgent = [cause for cause in causes if cause.kind in NEEDS_PERSON]
    return next(iter(urgent or causes), None)
