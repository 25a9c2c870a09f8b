"""Ends the work of a Session, whichever process does it, or is about to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.session.activity import is_continued, stage_of

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


async def interrupt_work(execution: Execution, store: SessionStore, session_id: str) -> None:
    """Interrupt what runs. Of what an ended process left, give up whatever could still happen without another decision
    of a person: work that a process is about to continue, and calls that wait for an answer or have one."""
    left = await store.activity(session_id)
    await execution.interrupt(session_id)
    now = await store.activity(session_id)
    if left is None or now is None or now.seq != left.seq:
        return
    if is_continued(now) or stage_of(now) == "waiting" or await store.resumable_calls(session_id):
        await execution.stop(session_id)
