"""Sign-ins that a person finishes elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Literal

import pytest
from tests.conftest import ManualClock

from holdfast.core.clock import Ids
from holdfast.core.credential import attempts as module
from holdfast.core.credential.attempts import KEPT_MS, LIVE_MS, MOST_ATTEMPTS, SignInAttempts
from holdfast.core.credential.errors import AttemptNotFound, AuthorizationFailed, CodeRequired
from holdfast.core.credential.integration import Authorization, OAuth
from holdfast.core.credential.store import OAuthValue
from holdfast.schema.catalog import Attempt, AttemptStatus, AttemptTime, OAuthMethod

pytestmark = pytest.mark.anyio
VALUE = OAuthValue(method_id="m", access="a", refresh="r", expires=1)


class SignIn:
    """The other side, under the test's control."""

    def __init__(self, mode: Literal["auto", "code"]) -> None:
        self.mode = mode
        self.finished = asyncio.Event()
        self.started = asyncio.Event()
        self.codes: list[str | None] = []
        self.closed = 0
        self.error: Exception | None = None
        self.accepted: list[str] | None = None
        """What was pasted; None if nothing can be."""
        self.inputs: Mapping[str, str] = {}

    @property
    def oauth(self) -> OAuth:
        return OAuth(OAuthMethod(id="m", label="M"), self.authorize)

    async def authorize(self, inputs: Mapping[str, str]) -> Authorization:
        self.inputs = inputs
        accept = self.accept if self.accepted is not None else None
        return Authorization("https://sign.in", "Go there", self.mode, self.finish, self.close, accept)

    def accept(self, code: str) -> None:
        assert self.accepted is not None
        if code == "foreign":
            raise AuthorizationFailed("It is not for this sign-in")
        self.accepted.append(code)
        self.finished.set()

    async def finish(self, code: str | None) -> OAuthValue:
        self.codes.append(code)
        self.started.set()
        await self.finished.wait()
        if self.error is not None:
            raise self.error
        return VALUE

    async def close(self) -> None:
        self.closed += 1


class Kept:
    def __init__(self) -> None:
        self.stored: list[tuple[str, OAuthValue, str | None]] = []
        self.changed = asyncio.Event()

    async def store(self, integration_id: str, value: OAuthValue, label: str | None) -> None:
        self.stored.append((integration_id, value, label))
        self.changed.set()


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
async def attempts(kept: Kept, ids: Ids, clock: ManualClock) -> AsyncIterator[SignInAttempts]:
    attempts = SignInAttempts(kept.store, ids, clock)
    yield attempts
    await attempts.close()


async def settled(attempts: SignInAttempts, id: str) -> AttemptStatus:
    work = attempts._open[id].work
    assert work is not None
    await asyncio.wait([work])
    return await attempts.status(id)


async def test_an_automatic_sign_in_stores_its_credential(
    attempts: SignInAttempts, kept: Kept, clock: ManualClock
) -> None:
    """CAT-134: mode `auto`; the credential is stored, what it held open is closed."""
    sign = SignIn("auto")
    begun = await attempts.begin("p", sign.oauth, {"where": "here"}, "work")
    time = AttemptTime(created=clock.now(), expires=clock.now() + LIVE_MS)
    expected = Attempt(
        attempt_id=begun.attempt_id, url="https://sign.in", instructions="Go there", mode="auto", time=time
    )
    assert (begun, begun.attempt_id[:4], sign.inputs) == (expected, "con_", {"where": "here"})
    await sign.started.wait()
    assert await attempts.status(begun.attempt_id) == AttemptStatus(status="pending", time=time)
    with pytest.raises(AuthorizationFailed, match="already"):
        await attempts.complete(begun.attempt_id)
    sign.finished.set()
    assert await settled(attempts, begun.attempt_id) == AttemptStatus(status="complete", time=time)
    assert (kept.stored, sign.codes, sign.closed) == ([("p", VALUE, "work")], [None], 1)


async def test_an_automatic_sign_in_may_take_what_was_pasted(attempts: SignInAttempts, kept: Kept) -> None:
    """CAT-134, MCP-113: what is not its own is refused, and it goes on."""
    sign = SignIn("auto")
    sign.accepted = []
    begun = await attempts.begin("p", sign.oauth, {})
    await sign.started.wait()
    with pytest.raises(AuthorizationFailed, match="not for this"):
        await attempts.complete(begun.attempt_id, "foreign")
    with pytest.raises(AuthorizationFailed, match="already"):
        await attempts.complete(begun.attempt_id, None)
    assert (await attempts.status(begun.attempt_id)).status == "pending"
    await attempts.complete(begun.attempt_id, "own")
    assert (sign.accepted, sign.codes, kept.stored) == (["own"], [None], [("p", VALUE, None)])


async def test_a_sign_in_by_code_stays_open_until_it_has_one(attempts: SignInAttempts, kept: Kept) -> None:
    """CAT-134: without one it stays open; twice at once is an error, after the end it is nothing."""
    sign = SignIn("code")
    begun = await attempts.begin("p", sign.oauth, {})
    for missing in (None, ""):
        with pytest.raises(CodeRequired):
            await attempts.complete(begun.attempt_id, missing)
    assert (await attempts.status(begun.attempt_id)).status == "pending"
    finishing = asyncio.create_task(attempts.complete(begun.attempt_id, "123"))
    await sign.started.wait()
    with pytest.raises(AuthorizationFailed, match="already"):
        await attempts.complete(begun.attempt_id, "456")
    sign.finished.set()
    await finishing
    await attempts.complete(begun.attempt_id, "789")
    assert (await attempts.status(begun.attempt_id)).status == "complete"
    assert (kept.stored, sign.codes, sign.closed) == ([("p", VALUE, None)], ["123"], 1)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("token secret-9"), "Sign-in failed (ValueError)"),
        (AuthorizationFailed("Code expired"), "Code expired"),
    ],
)
async def test_a_failed_sign_in_is_told_without_the_providers_words(
    attempts: SignInAttempts, kept: Kept, error: Exception, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """CAT-134, CAT-135: the caller and whoever asks are told, without what the provider said."""
    sign = SignIn("code")
    sign.error = error
    sign.finished.set()
    begun = await attempts.begin("p", sign.oauth, {})
    with pytest.raises(AuthorizationFailed) as failed:
        await attempts.complete(begun.attempt_id, "1")
    status = await attempts.status(begun.attempt_id)
    assert (str(failed.value), status.status, status.message) == (message, "failed", message)
    assert (kept.stored, sign.closed) == ([], 1)
    assert "secret-9" not in caplog.text
    await attempts.complete(begun.attempt_id, "2")


@pytest.mark.parametrize("mode", ["auto", "code"])
async def test_a_sign_in_expires_after_ten_minutes_and_is_forgotten_after_eleven(
    attempts: SignInAttempts, clock: ManualClock, mode: Literal["auto", "code"]
) -> None:
    """CAT-134: ten minutes to finish, a minute to ask how it ended."""
    sign = SignIn(mode)
    begun = await attempts.begin("p", sign.oauth, {})
    clock.advance(LIVE_MS - 1)
    assert (await attempts.status(begun.attempt_id)).status == "pending"
    clock.advance(1)
    assert (await attempts.status(begun.attempt_id)).status == "expired"
    assert sign.closed == 1
    sign.finished.set()
    await attempts.complete(begun.attempt_id, "late")
    clock.advance(KEPT_MS - 1)
    assert (await attempts.status(begun.attempt_id)).status == "expired"
    clock.advance(1)
    with pytest.raises(AttemptNotFound):
        await attempts.status(begun.attempt_id)


@pytest.mark.parametrize("mode", ["auto", "code"])
async def test_cancelling_a_sign_in_forgets_it(
    attempts: SignInAttempts, kept: Kept, mode: Literal["auto", "code"]
) -> None:
    """CAT-134: and closes what it held; an unknown one is nobody's business."""
    sign = SignIn(mode)
    begun = await attempts.begin("p", sign.oauth, {})
    await attempts.cancel(begun.attempt_id)
    await attempts.cancel(begun.attempt_id)
    with pytest.raises(AttemptNotFound):
        await attempts.status(begun.attempt_id)
    sign.finished.set()
    assert (kept.stored, sign.closed) == ([], 1)


async def test_cancelling_while_it_is_being_finished(attempts: SignInAttempts, kept: Kept) -> None:
    """CAT-134: whoever waits for the outcome is told that there is none, and is not cancelled along with it."""
    sign = SignIn("code")
    begun = await attempts.begin("p", sign.oauth, {})
    finishing = asyncio.create_task(attempts.complete(begun.attempt_id, "1"))
    await sign.started.wait()
    await attempts.cancel(begun.attempt_id)
    with pytest.raises(AttemptNotFound):
        await finishing
    assert (kept.stored, sign.closed) == ([], 1)


async def test_a_sign_in_completes_when_its_caller_goes_away(attempts: SignInAttempts, kept: Kept) -> None:
    """CAT-134: a code is good once, so what was begun with it goes on."""
    sign = SignIn("code")
    begun = await attempts.begin("p", sign.oauth, {})
    finishing = asyncio.create_task(attempts.complete(begun.attempt_id, "1"))
    await sign.started.wait()
    finishing.cancel()
    await asyncio.wait([finishing])
    sign.finished.set()
    assert (await settled(attempts, begun.attempt_id)).status == "complete"
    assert len(kept.stored) == 1


async def test_a_provider_that_does_not_answer(attempts: SignInAttempts, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-134: whoever wants to sign in is told, instead of waiting."""

    async def silent(inputs: Mapping[str, str]) -> Authorization:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(module, "BEGIN_SECONDS", 0.01)
    with pytest.raises(AuthorizationFailed, match="TimeoutError"):
        await attempts.begin("p", OAuth(OAuthMethod(id="m", label="M"), silent), {})


async def test_a_sign_in_that_cannot_begin_fails_without_the_providers_words(attempts: SignInAttempts) -> None:
    """CAT-134: and everything is bounded."""

    async def refuse(inputs: Mapping[str, str]) -> Authorization:
        raise OSError("secret-9")

    with pytest.raises(AuthorizationFailed, match="OSError") as failed:
        await attempts.begin("p", OAuth(OAuthMethod(id="m", label="M"), refuse), {})
    assert "secret-9" not in str(failed.value)
    signs = [SignIn("code") for _ in range(MOST_ATTEMPTS)]
    for sign in signs:
        await attempts.begin("p", sign.oauth, {})
    with pytest.raises(AuthorizationFailed, match="Too many"):
        await attempts.begin("p", signs[0].oauth, {})
    await attempts.close()
    assert [sign.closed for sign in signs] == [1] * MOST_ATTEMPTS
