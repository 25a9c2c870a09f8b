"""The one retry policy: which failures before any output are tried again, when, and what is said when that ends."""

from __future__ import annotations

from typing import Any

import pytest
from tests.llm.support import (
    HELLO_CHAT,
    HELLO_CLAUDE,
    KEY,
    Naps,
    Playback,
    Played,
    chat_model,
    chunk,
    claude,
    play,
    sse,
)

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.model import Model
from holdfast.llm.request import make_request
from holdfast.llm.route.executor import limit_reset, retry_after
from holdfast.llm.route.retry import Retry, RetryLimits, duration
from holdfast.llm.route.transport import HttpResponse
from holdfast.llm.stream import stream

pytestmark = pytest.mark.anyio

NOW = 1_700_000_000.0


def answer(status: int, body: bytes = b"no", **headers: str) -> Played:
    return Played([body], status, {name.replace("_", "-"): value for name, value in headers.items()})


class Turn:
    """A turn with everything that it waits for made visible."""

    def __init__(self, *answers: HttpResponse | LLMError, model: Model | None = None, **limits: int) -> None:
        self.transport = Playback(*answers)
        self.naps = Naps(NOW)
        self.waited: list[tuple[int, str, int]] = []
        self.said: list[str] = []
        self.resumed = 0
        self.events: list[ev.Event] = []
        self._model = model or chat_model()
        self.retry = Retry(
            RetryLimits(**limits),
            sleep=self.naps,
            now=self.naps.now,
            chance=lambda: 0.5,
            on_wait=self._wait,
            on_resume=self._resume,
        )

    async def _wait(self, attempt: int, error: LLMError, delay: int) -> None:
        self.waited.append((attempt, error.reason, delay))
        self.said.append(error.message)

    def _resume(self) -> None:
        self.resumed += 1

    async def run(self) -> str:
        async for batch in stream(self.transport, self._model, make_request(prompt="x"), retry=self.retry):
            self.events += batch
        return "".join(event.text for event in self.events if isinstance(event, ev.TextDelta))

    async def fail(self) -> LLMError:
        with pytest.raises(LLMError) as caught:
            await self.run()
        return caught.value

    @property
    def count(self) -> int:
        return len(self.transport.requests)


# -- what is tried again ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
async def test_a_retryable_failure_is_tried_for_five_minutes(status: int) -> None:
    """LLM-410, LLM-411: half a second, then twice as long each time, up to half a minute."""
    turn = Turn(answer(status))
    error = await turn.fail()
    assert error.status == status
    assert turn.naps.seconds[:8] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert 270 < sum(turn.naps.seconds) <= 300
    assert turn.count == len(turn.naps.seconds) + 1 == turn.resumed + 1
    assert [delay for _, _, delay in turn.waited] == [seconds * 1000 for seconds in turn.naps.seconds]
    assert [attempt for attempt, _, _ in turn.waited] == list(range(1, turn.count))
    assert "Gave up after 15 attempts in 4 min 32 s (holdfast.retry.total_seconds)." in error.message


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 413, 422, 418, 301])
async def test_one_attempt_for_what_will_not_pass(status: int) -> None:
    """LLM-410"""
    turn = Turn(answer(status, retry_after="1"))
    error = await turn.fail()
    assert (turn.count, turn.naps.seconds) == (1, [])
    assert "Gave up" not in error.message


@pytest.mark.parametrize(
    "body",
    [
        b"You exceeded your current quota",
        b'{"error":{"code":"insufficient_quota","message":"no"}}',
        b'{"error":{"type":"billing_error","message":"no"}}',
        b'{"error":{"code":"billing_hard_limit_reached","message":"no"}}',
    ],
)
async def test_a_used_up_quota_is_not_tried_again(body: bytes) -> None:
    """LLM-352, LLM-410: although it is a 429 that says when to come back."""
    turn = Turn(answer(429, body, retry_after="1"))
    error = await turn.fail()
    assert (error.reason, turn.count) == ("QuotaExceeded", 1)
    assert error.message.startswith("The quota or the credit of openai is used up (HTTP 429)")


@pytest.mark.parametrize("kind", ["connect", "read", "truncated", "write", "close"])
async def test_a_broken_connection_is_tried_again(kind: str) -> None:
    """LLM-410: whether it breaks before the head of the answer or after."""
    broken = LLMError("Transport", "broken", kind=kind, retryable=kind not in ("read", "truncated"))
    assert await Turn(broken, play(HELLO_CHAT)).run() == "Héllo"
    assert await Turn(Played([b": hello\n\n", broken]), play(HELLO_CHAT)).run() == "Héllo"


async def test_an_answer_without_anything_in_it_is_tried_again() -> None:
    """LLM-410, LLM-343"""
    assert await Turn(Played([]), Played([b"data: [DONE]\n\n"]), play(HELLO_CHAT)).run() == "Héllo"


@pytest.mark.parametrize(
    ("model", "opening", "error", "good"),
    [
        (
            claude(),
            {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            HELLO_CLAUDE,
        ),
        (chat_model(), chunk(), {"error": {"code": 529, "message": "Provider overloaded"}}, HELLO_CHAT),
        (chat_model(), chunk(), {"error": {"code": "engine_overloaded", "message": "busy"}}, HELLO_CHAT),
        (chat_model(), chunk(), {"error": {"type": "rate_limit_error", "message": "slowly"}}, HELLO_CHAT),
    ],
)
async def test_an_error_in_the_stream_before_output_is_tried_again(
    model: Model, opening: Any, error: Any, good: bytes
) -> None:
    """LLM-410: it is one policy, whatever way the provider says it."""
    refused = play(sse(opening, error))
    turn = Turn(refused, refused, play(good), model=model)
    assert await turn.run() == "Héllo"
    assert turn.naps.seconds == [0.5, 1.0]
    assert not any(isinstance(event, ev.ProviderError) for event in turn.events)
    assert refused.closed == 2


async def test_an_error_in_the_stream_is_an_event_when_time_is_up() -> None:
    """LLM-411, LLM-342"""
    turn = Turn(play(sse({"error": {"type": "rate_limit_error", "message": "slowly"}})), total_seconds=2)
    await turn.run()
    assert turn.count == 3
    [event] = turn.events
    assert isinstance(event, ev.ProviderError)
    assert event.message.startswith("openai limits the rate of requests: slowly. Gave up after 3 attempts in 1.5 s")


@pytest.mark.parametrize("after", ["error", "cut", "reset"])
async def test_nothing_is_tried_again_after_output(after: str) -> None:
    """LLM-410: not even when output and error come in one read."""
    said = sse(chunk({"content": "so far"}))
    ends: dict[str, list[bytes | BaseException]] = {
        "error": [said + sse({"error": {"type": "rate_limit_error", "message": "slowly"}})],
        "cut": [said],
        "reset": [said, LLMError("Transport", "reset", kind="read")],
    }
    turn = Turn(Played(ends[after]), play(HELLO_CHAT))
    if after == "error":
        await turn.run()
        assert isinstance(turn.events[-1], ev.ProviderError)
    else:
        await turn.fail()
    assert (turn.count, turn.naps.seconds) == (1, [])


async def test_every_attempt_is_signed_anew() -> None:
    """LLM-412: signatures and tokens expire within minutes."""

    class Counting:
        made = refreshed = 0

        async def refresh(self) -> None:
            self.refreshed += 1

        def headers(self, url: str, headers: object, body: object) -> dict[str, str]:
            self.made += 1
            return {"authorization": f"Bearer {self.made}"}

        def secrets(self) -> tuple[str, ...]:
            return ()

    auth = Counting()
    turn = Turn(answer(503), answer(503), play(HELLO_CHAT), model=chat_model(auth=auth))
    await turn.run()
    assert [request.headers["authorization"] for request in turn.transport.requests] == [
        "Bearer 1",
        "Bearer 2",
        "Bearer 3",
    ]
    assert auth.refreshed == 3


# -- how long --------------------------------------------------------------------------------------------------------


async def test_the_wait_the_server_asks_for_is_kept() -> None:
    """LLM-413: exactly, and never none at all."""
    turn = Turn(
        answer(429, retry_after="120"), answer(429, retry_after_ms="0"), answer(503, retry_after="0"), play(HELLO_CHAT)
    )
    await turn.run()
    assert turn.naps.seconds == [120, 1, 1]


async def test_a_server_that_always_says_at_once_is_not_asked_without_pause() -> None:
    """LLM-413"""
    turn = Turn(answer(503, retry_after="0"), total_seconds=20)
    await turn.fail()
    assert turn.naps.seconds == [0.5] + [1.0] * 19


async def test_a_wait_beyond_the_limit_fails_at_once_and_says_how_long() -> None:
    """LLM-414"""
    turn = Turn(answer(429, retry_after="1200"))
    error = await turn.fail()
    assert (error.reason, error.retry_after_ms, turn.count, turn.naps.seconds) == ("RateLimit", 1_200_000, 1, [])
    assert error.message == (
        "openai limits the rate of requests (HTTP 429): no. The provider asked to wait 20 min, which does not fit into "
        "5 min (holdfast.retry.total_seconds)."
    )


async def test_a_wait_that_no_longer_fits_fails_at_once() -> None:
    """LLM-414"""
    turn = Turn(answer(429, retry_after="200"))
    error = await turn.fail()
    assert turn.naps.seconds == [200]
    assert "asked after 3 min 20 s to wait 3 min 20 s, which does not fit into 5 min" in error.message


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 0.4), (1.0, 0.6)])
async def test_the_wait_varies_by_a_fifth(chance: float, seconds: float) -> None:
    """LLM-411"""
    turn = Turn(answer(500), play(HELLO_CHAT))
    turn.retry = turn.retry.replace(chance=lambda: chance)
    await turn.run()
    assert turn.naps.seconds == [pytest.approx(seconds, abs=0.002)]


async def test_retry_limits_are_configurable() -> None:
    """LLM-411"""
    turn = Turn(answer(500), total_seconds=8, delay_seconds=2)
    await turn.fail()
    assert turn.naps.seconds == [0.5, 1, 2, 2, 2]
    none = Turn(answer(429, retry_after="1"), total_seconds=0)
    error = await none.fail()
    assert none.count == 1
    assert error.message == "openai limits the rate of requests (HTTP 429): no."


async def test_time_spent_in_attempts_counts() -> None:
    """LLM-411"""
    naps = Naps(NOW)

    async def slow() -> HttpResponse:
        await naps(40)
        raise LLMError("Transport", "no connection", kind="timeout", retryable=True)

    retry = Retry(RetryLimits(total_seconds=100), sleep=naps, now=naps.now, chance=lambda: 0.5)
    transport = Playback(slow)
    with pytest.raises(LLMError):
        async for _ in stream(transport, chat_model(), make_request(prompt="x"), retry=retry):
            pass
    assert naps.seconds == [40, 0.5, 40, 1, 40]


@pytest.mark.parametrize(
    ("headers", "millis"),
    [
        ({"x-ratelimit-reset-requests": "12s", "x-ratelimit-remaining-requests": "0"}, 12_000),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360_000),
        ({"x-ratelimit-reset-tokens": "1m30.5s"}, 90_500),
        ({"x-ratelimit-reset-tokens": "20ms"}, 20),
        ({"x-ratelimit-reset-tokens": "1h2m"}, 3_720_000),
        ({"x-ratelimit-reset": "7"}, 7000),
        ({"x-ratelimit-reset": "0.5"}, 500),
        ({"x-ratelimit-reset": str(int(NOW) + 9)}, 9000),
        ({"x-ratelimit-reset": str(int(NOW) - 9)}, 0),
        ({"x-ratelimit-reset": str(int(NOW * 1000) + 1500)}, 1500),
        ({"anthropic-ratelimit-requests-reset": "2023-11-14T22:13:25Z"}, 5000),
        # What is left of decides: only what is exhausted has to be waited for, and all of that.
        (
            {
                "x-ratelimit-reset-requests": "8s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "4000",
            },
            8000,
        ),
        ({"x-ratelimit-reset-requests": "8s", "x-ratelimit-reset-tokens": "9s"}, 9000),
        ({"x-ratelimit-reset-requests": "8s", "x-ratelimit-remaining-requests": "3"}, None),
        ({"x-ratelimit-reset-requests": "soon"}, None),
        ({"x-ratelimit-reset-requests": ""}, None),
        ({"x-ratelimit-reset-requests": "-5"}, 0),
        ({"x-ratelimit-reset-requests": "1e400"}, None),
        ({"x-ratelimit-limit-requests": "5"}, None),
    ],
)
def test_when_a_rate_limit_is_reset(headers: dict[str, str], millis: int | None) -> None:
    """LLM-413"""
    assert limit_reset(headers, NOW) == millis
    assert retry_after(headers, None, NOW, limited=True) == millis
    assert retry_after({**headers, "retry-after": "2"}, None, NOW, limited=True) == 2000
    # A server that is overloaded sends them too, and means nothing by it.
    assert retry_after(headers, None, NOW) is None


async def test_a_reset_is_waited_for() -> None:
    """LLM-413"""
    turn = Turn(answer(429, x_ratelimit_reset_requests="12s"), play(HELLO_CHAT))
    await turn.run()
    assert turn.naps.seconds == [12]


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "0 s"),
        (500, "0.5 s"),
        (12_000, "12 s"),
        (59_999, "1 min"),
        (90_000, "1 min 30 s"),
        (300_000, "5 min"),
        (4_800_000, "1 h 20 min"),
        (86_400_000, "24 h"),
    ],
)
def test_durations_are_shown_in_readable_units(millis: int, text: str) -> None:
    """LLM-414"""
    assert duration(millis) == text


async def test_retry_reports_hold_no_secret() -> None:
    """LLM-339, LLM-410"""
    turn = Turn(answer(503, f"bad {KEY}".encode()), total_seconds=1)
    error = await turn.fail()
    assert turn.said
    assert KEY not in "".join((*turn.said, error.message))
