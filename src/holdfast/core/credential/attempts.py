"""OAuth sign-ins that the user completes in a browser. They live in this process for ten minutes.

Invariants
- An attempt ends once: complete, failed or expired. Its resources are closed then.
- The result can be read for one minute; a cancelled attempt is removed at once."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal

import msgspec

from holdfast.core.credential.errors import AttemptNotFound, AuthorizationFailed, CodeRequired
from holdfast.core.credential.integration import Authorization
from holdfast.schema.catalog import Attempt, AttemptStatus, AttemptTime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.credential.integration import OAuth
    from holdfast.core.credential.store import OAuthValue

LIVE_MS = 10 * 60 * 1000
KEPT_MS = 60 * 1000
SWEEP_SECONDS = 30.0
BEGIN_SECONDS = 60.0
"""The longest wait for the provider's sign-in address."""
MOST_ATTEMPTS = 100

log = logging.getLogger(__name__)


class _SignIn(msgspec.Struct, eq=False):
    id: str
    integration_id: str
    label: str | None
    authorization: Authorization
    time: AttemptTime
    status: Literal["pending", "complete", "failed", "expired"] = "pending"
    message: str | None = None
    ended_at: int | None = None
    work: asyncio.Task[None] | None = None


class SignInAttempts:
    def __init__(self, store: Callable[[str, OAuthValue, str | None], Awaitable[None]], ids: Ids, clock: Clock) -> None:
        self._store = store
        self._ids = ids
        self._clock = clock
        self._open: dict[str, _SignIn] = {}
        self._sweeper: asyncio.Task[None] | None = None

    async def begin(
        self, integration_id: str, oauth: OAuth, inputs: Mapping[str, str], label: str | None = None
    ) -> Attempt:
        await self.sweep()
        if len(self._open) >= MOST_ATTEMPTS:
            raise AuthorizationFailed("Too many sign-ins are open; finish or cancel one")
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                authorization = await oauth.authorize(inputs)
        except AuthorizationFailed as error:
            raise AuthorizationFailed(f"{integration_id}: sign-in could not begin: {error}") from None
        except Exception as error:  # noqa: BLE001 - the message may hold secrets: only the type is shown
            raise AuthorizationFailed(f"{integration_id}: sign-in could not begin ({type(error).__name__})") from None
        now = self._clock.now()
        time = AttemptTime(created=now, expires=now + LIVE_MS)
        attempt = _SignIn(self._ids.of("con"), integration_id, label, authorization, time)
        self._open[attempt.id] = attempt
        if authorization.mode == "auto":
            attempt.work = self._start(attempt, None)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep_on(), name="sign-in sweep")
        return Attempt(
            attempt_id=attempt.id,
            url=authorization.url,
            instructions=authorization.instructions,
            mode=authorization.mode,
            time=time,
        )

    async def status(self, id: str) -> AttemptStatus:
        await self.sweep()
        attempt = self._find(id)
        return AttemptStatus(status=attempt.status, message=attempt.message, time=attempt.time)

    async def complete(self, id: str, code: str | None = None) -> None:
        """Complete an attempt with a code and wait for the result; a failure is raised. Does nothing after the end. An
        `auto` attempt takes a code too if it can `accept` one."""
        await self.sweep()
        attempt = self._find(id)
        if attempt.status != "pending":
            return
        accept = attempt.authorization.accept
        if attempt.work is not None and (accept is None or not code):
            raise AuthorizationFailed("This sign-in is already being finished")
        if not code:
            raise CodeRequired(id)
        if attempt.work is None:
            attempt.work = self._start(attempt, code)
        elif accept is not None:
            accept(code)
        await asyncio.wait([attempt.work])
        if attempt.work.cancelled():
            raise AttemptNotFound(id)  # it was cancelled or expired
        if attempt.message is not None:
            raise AuthorizationFailed(attempt.message)

    async def cancel(self, id: str) -> None:
        attempt = self._open.pop(id, None)
        if attempt is not None and attempt.status == "pending":
            await self._release(attempt)

    async def sweep(self) -> None:
        """Expire old attempts and remove those that ended a while ago."""
        now = self._clock.now()
        for attempt in list(self._open.values()):
            if attempt.status == "pending" and now >= attempt.time.expires:
                attempt.status, attempt.ended_at = "expired", attempt.time.expires
                await self._release(attempt)
            if attempt.ended_at is not None and now >= attempt.ended_at + KEPT_MS:
                self._open.pop(attempt.id, None)

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        for id in list(self._open):
            await self.cancel(id)

    def _find(self, id: str) -> _SignIn:
        if (attempt := self._open.get(id)) is None:
            raise AttemptNotFound(id)
        return attempt

    def _start(self, attempt: _SignIn, code: str | None) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._finish(attempt, code), name="sign-in")

    async def _finish(self, attempt: _SignIn, code: str | None) -> None:
        try:
            value = await attempt.authorization.finish(code)
            await self._store(attempt.integration_id, value, attempt.label)
            attempt.status = "complete"
        except Exception as error:  # noqa: BLE001 - every failure ends the attempt and is reported
            log.warning("%s: sign-in failed: %s", attempt.integration_id, type(error).__name__)
            attempt.status = "failed"
            attempt.message = (
                str(error) if isinstance(error, AuthorizationFailed) else f"Sign-in failed ({type(error).__name__})"
            )
        attempt.ended_at = self._clock.now()
        await self._close(attempt)

    async def _release(self, attempt: _SignIn) -> None:
        if attempt.work is not None and not attempt.work.done():
            attempt.work.cancel()
            await asyncio.wait([attempt.work])
        await self._close(attempt)

    async def _close(self, attempt: _SignIn) -> None:
        close = attempt.authorization.close
        attempt.authorization = attempt.authorization.replace(close=None)
        if close is not None:
            try:
                await close()
            except Exception:
                log.exception("closing a sign-in")

    async def _sweep_on(self) -> None:
        """Sweep periodically while there are attempts."""
        while self._open:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()
        self._sweeper = None
