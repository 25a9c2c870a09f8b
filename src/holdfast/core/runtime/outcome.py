"""How the last activity of a Session ended, read from what is recorded: every process says the same, also after a
restart. The cost does not depend on the length of the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.session.activity import described
from holdfast.core.session.budgets import paused_wait
from holdfast.schema.budget import BUDGET_REACHED
from holdfast.schema.insight import Outcome

if TYPE_CHECKING:
    from holdfast.core.session.store import SessionStore


async def outcome_of(store: SessionStore, session_id: str) -> Outcome:
    pending = len(await store.all_pending(session_id))
    ended = await store.ending(session_id)
    if (pause := await store.pause(session_id)) is not None:
        wait = await paused_wait(store, session_id, pause)
        return Outcome(
            type="waiting",
            message_id=ended.message_id,
            error=f"it waits for {wait.what}, until {wait.ends}",
            code=BUDGET_REACHED,
            pending=pending,
        )
    if (activity := await store.activity(session_id)) is not None:
        status = described(activity)
        return Outcome(
            type="waiting" if status.stage == "waiting" else "unfinished",
            message_id=ended.message_id,
            error=f"{status.what}; {status.next}",
            pending=pending,
        )
    if (blocked := await store.blocked(session_id)) is not None:
        return Outcome(type="blocked", message_id=ended.message_id, error=blocked.message, pending=pending)
    return replace(ended, pending=pending)
