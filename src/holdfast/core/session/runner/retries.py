"""Retries before the first byte, made visible: durably, and as the Session's live status with the time of the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.llm.route.executor import Retry
from holdfast.schema import live_event as live
from holdfast.schema.session_event import Retried, RetryError

if TYPE_CHECKING:
    from holdfast.core.clock import Clock
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.runner.outbox import Outbox
    from holdfast.core.session.runner.publish import TurnOf
    from holdfast.llm.errors import LLMError

MESSAGE_CHARACTERS = 2_000


def reported(log: EventLog, outbox: Outbox, of: TurnOf, clock: Clock) -> Retry:
    def on_retry(attempt: int, error: LLMError, delay: int) -> None:
        now = clock.now()
        shown = error.message[:MESSAGE_CHARACTERS]
        failed = RetryError(message=shown, status_code=error.status, is_retryable=True)
        outbox.submit(Retried(timestamp=now, session_id=of.session_id, attempt=attempt, error=failed))
        status = live.Retry(attempt=attempt, message=shown, next=now + delay)
        log.announce(live.SessionStatus(session_id=of.session_id, status=status), location=of.location)

    return Retry(on_retry=on_retry)
