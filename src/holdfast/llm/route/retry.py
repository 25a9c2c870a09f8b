"""Retries: only before any output, and only for temporary failures.

Invariants
- One policy for HTTP errors, errors inside a stream and broken connections. Each wait is reported before it begins.
- No attempt begins before the time that the server asked for. A time beyond the limit is not waited for at all: the
  turn fails at once and says how long the server asked for.
- No wait ends later than `total_seconds` after the first attempt began. Between two attempts there is a pause."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.llm.errors import LLMError

SHORTEST_MS = 1_000
"""Shortest wait if the server asks for less, unless the back-off is shorter."""
BROKEN = ("read", "truncated")
"""Kinds of Transport errors for a response that broke off; retried if it had no output."""


class RetryLimits(Frozen):
    """Set in `holdfast.retry`."""

    total_seconds: int = 300
    """From the start of the first attempt to the start of the last. 0 means one attempt."""
    delay_seconds: int = 30
    """Longest wait between two attempts, unless the server asks for another."""


class Retry(Frozen):
    limits: RetryLimits = RetryLimits()
    base_ms: int = 500
    """The first wait; each following one is twice as long, plus or minus 20 %."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    now: Callable[[], float] = time.time
    """Seconds since 1970."""
    on_wait: Callable[[int, LLMError, int], Awaitable[None]] | None = None
    """Awaited before a wait, with the attempt that failed, why, and how many milliseconds until the next."""
    on_resume: Callable[[], None] | None = None
    """Called when a wait is over and the next attempt begins."""


DEFAULT_RETRY = Retry()
NO_RETRY = Retry(limits=RetryLimits(total_seconds=0))


class Attempts:
    """The attempts of one turn."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self._began = retry.now()
        self._failed = 0

    async def again(self, error: LLMError) -> bool:
        """Wait for the next attempt and return True; or return False, with the reason in the error's message."""
        self._failed += 1
        if not may_pass(error):
            return False
        retry = self._retry
        spent = max(0, int((retry.now() - self._began) * 1000))
        delay = self._delay(error)
        if spent + delay > retry.limits.total_seconds * 1000:
            error.reword(_given_up(error, self._failed, spent, retry.limits))
            return False
        if retry.on_wait is not None:
            await retry.on_wait(self._failed, error, delay)
        await retry.sleep(delay / 1000)
        if retry.on_resume is not None:
            retry.on_resume()
        return True

    def _delay(self, error: LLMError) -> int:
        jitter = 0.8 + 0.4 * self._retry.chance()
        longest = self._retry.limits.delay_seconds * 1000
        # The exponent is bounded; the result exceeds every limit by then.
        backoff = min(longest, int(self._retry.base_ms * 2 ** min(self._failed - 1, 30) * jitter))
        if error.retry_after_ms is None:
            return backoff
        return max(error.retry_after_ms, min(backoff, SHORTEST_MS))


def may_pass(error: LLMError) -> bool:
    """Whether the same request may succeed later."""
    return error.retryable or (error.reason == "Transport" and error.kind in BROKEN)


def duration(millis: int) -> str:
    """For people: `0.5 s`, `12 s`, `5 min`, `1 h 20 min`."""
    if millis < 10_000:
        return f"{round(millis / 1000, 1):g} s"
    minutes, seconds = divmod(round(millis / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (seconds if not hours else 0, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def _given_up(error: LLMError, attempts: int, spent: int, limits: RetryLimits) -> str:
    said = error.message.rstrip(". ")
    if error.retry_after_ms is not None and limits.total_seconds:
        asked, most = duration(error.retry_after_ms), duration(limits.total_seconds * 1000)
        after = f" after {duration(spent)}" if attempts > 1 else ""
        return (
            f"{said}. The provider asked{after} to wait {asked}, "
            f"which does not fit into {most} (holdfast.retry.total_seconds)."
        )
    if attempts == 1:
        return error.message
    return f"{said}. Gave up after {attempts} attempts in {duration(spent)} (holdfast.retry.total_seconds)."
