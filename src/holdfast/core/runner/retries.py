"""Makes the waits between attempts at a provider turn visible: durably as an event, and as the Session's live status.

Invariants
- The event is on disk before the wait begins and before the live status says so, with the time at which it ends.
- The live status is `retry` during a wait and `busy` again when the next attempt begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.llm.route.retry import Retry
from holdfast.schema import live_event as live
from holdfast.schema.session_event import Retried, RetryError

if TYPE_CHECKING:
    from holdfast.core.clock import Clock
    from holdfast.core.event.log import EventLog
    from holdfast.core.runner.outbox import Outbox
    from holdfast.llm.errors import LLMError
    from holdfast.schema.location import Location

MESSAGE_CHARACTERS = 2_000


def reported(log: EventLog, outbox: Outbox, session_id: str, location: Location, clock: Clock) -> Retry:
    def announce(status: live.Status) -> None:
        log.announce(live.SessionStatus(session_id=session_id, status=status), location=location)

    async def on_wait(attempt: int, error: LLMError, delay: int) -> None:
        now = clock.now()
        shown = error.message[:MESSAGE_CHARACTERS]
        failed = RetryError(
            message=shown,
            status_code=error.status,
            is_retryable=True,
            metadata={"next": str(now + delay)},  # the contract has texts here
        )
        outbox.submit(Retried(timestamp=now, session_id=session_id, attempt=attempt, error=failed))
        await outbox.heard()
        announce(live.Retry(attempt=attempt, message=shown, next=now + delay))

    def on_resume() -> None:
        announce(live.Busy())

    return Retry(sleep=clock.sleep, now=lambda: clock.now() / 1000, on_wait=on_wait, on_resume=on_resume)
