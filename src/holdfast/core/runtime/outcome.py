"""How the last activity of a Session ended, read from what is recorded: every process says the same, also after a
restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.session.activity import described
from holdfast.core.session.answer_outcome import outcome_of_answer
from holdfast.core.session.budgets import paused_wait
from holdfast.schema.budget import BUDGET_REACHED
from holdfast.schema.insight import Outcome
from holdfast.schema.session_message import AssistantMessage

if TYPE_CHECKING:
    from holdfast.core.session.store import SessionStore

NEWEST = 20
"""Messages among which the newest answer is looked for; others that follow it are few."""


async def outcome_of(store: SessionStore, session_id: str) -> Outcome:
    pending = len(await store.all_pending(session_id))
    answer = await _newest_answer(store, session_id)
    answer_id = answer.id if answer is not None else None
    if (pause := await store.pause(session_id)) is not None:
        wait = await paused_wait(store, session_id, pause)
        return Outcome(
            type="waiting",
            message_id=answer_id,
            error=f"it waits for {wait.what}, until {wait.ends}",
            code=BUDGET_REACHED,
            pending=pending,
        )
    if (activity := await store.activity(session_id)) is not None:
        status = described(activity)
        return Outcome(
            type="waiting" if status.stage == "waiting" else "unfinished",
            message_id=answer_id,
            error=f"{status.what}; {status.next}",
            pending=pending,
        )
    if (blocked := await store.blocked(session_id)) is not None:
        return Outcome(type="blocked", message_id=answer_id, error=blocked.message, pending=pending)
    return Outcome(type="idle", pending=pending) if answer is None else outcome_of_answer(answer, pending)


async def _newest_answer(store: SessionStore, session_id: str) -> AssistantMessage | None:
    """Of the Session's own answers: a fork has done nothing for those it shares."""
    for row in await store.messages(session_id, order="desc", limit=NEWEST):
        if row.owner_id != session_id:
            return None
        if isinstance(message := row.decode(), AssistantMessage):
            return message
    return None
