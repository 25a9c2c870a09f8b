"""Ends the work of a Session, whichever process does it, or is about to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.runtime.execution import Execution
    from holdfast.core.session.store import SessionStore

TRIES = 20


async def end_work(execution: Execution, store: SessionStore, session_id: str) -> None:
    """Interrupt what runs, and give up what is owed, also if a process begins to look at it between the two."""
    left = await store.activity(session_id)
    for _ in range(TRIES):
        await execution.interrupt(session_id)
        await execution.abandon(session_id)
        now = await store.activity(session_id)
        if left is None or now is None or now.seq != left.seq or execution.closed:
            return
