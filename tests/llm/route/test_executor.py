"""One exchange: how long the server asks to wait, and errors with what is needed to understand them."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.support import KEY, Playback, Played

from holdfast.llm.errors import BODY_LIMIT, REDACTED, Diagnostics, LLMError
from holdfast.llm.route.executor import exchange, rate_limits, read_bounded, retry_after
from holdfast.llm.route.transport import HttpRequest, HttpResponse
from holdfast.schema.codec import encode

pytestmark = pytest.mark.anyio

REQUEST = HttpRequest(f"https://h/v1/x?key={KEY}&a=b", {"authorization": f"Bearer {KEY}", "accept": "a"}, [b"body"])
NOW = 1_700_000_000.0


def answer(status: int, body: bytes = b"no", **headers: str) -> Played:
    return Played([body], status, {name.replace("_", "-"): value for name, value in headers.items()})


class Exchange:
    """One exchange with given answers."""

    def __init__(self, *answers: HttpResponse | LLMError, **changes: Any) -> None:
        self.transport = Playback(*answers)

    async def run(self) -> HttpResponse:
        return await exchange(self.transport, REQUEST, (KEY,), lambda: NOW)

    async def fail(self) -> LLMError:
        with pytest.raises(LLMError) as caught:
            await self.run()
        return caught.value

    @property
    def count(self) -> int:
        return len(self.transport.requests)


# -- how long the server asks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "millis"),
    [
        ({"retry-after-ms": "1500"}, 1500),
        ({"retry-after-ms": "1500.7"}, 1500),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1500),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2000),
        ({"retry-after": "2"}, 2000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after": "-5"}, 0),
        ({"retry-after-ms": "-5"}, 0),
        ({"retry-after": formatdate(NOW + 3, usegmt=True)}, 3000),
        ({"retry-after": formatdate(NOW - 30, usegmt=True)}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "1e308"}, None),
        ({"retry-after": "1e308"}, None),
        ({"retry-after": "Wed, 21 Oct 99999999999 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_a_server_asks_for_is_read(headers: dict[str, str], millis: int | None) -> None:
    """LLM-351"""
    assert retry_after(headers, None, NOW) == millis


@pytest.mark.parametrize("zone", ["-0000", ""])
def test_a_date_without_a_zone_is_greenwichs(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLM-351: wherever this runs."""
    date = formatdate(NOW + 3, usegmt=True).removesuffix("GMT") + zone
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert retry_after({"retry-after": date.strip()}, None, NOW) == 3000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_header_that_says_nothing_leaves_it_to_the_body() -> None:
    """LLM-351, LLM-332"""
    body = {"error": {"details": [{"retryDelay": "2s"}]}}
    assert retry_after({"retry-after": "soon"}, body, NOW) == 2000


@settings(deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_retry_after_header_is_tolerated(one: str, two: str) -> None:
    """LLM-351"""
    found = retry_after({"retry-after-ms": one, "retry-after": two}, None, NOW)
    assert found is None or found >= 0


async def test_google_says_it_in_the_body() -> None:
    """LLM-332"""
    body = {"error": {"status": "RESOURCE_EXHAUSTED", "details": [{"@type": "RetryInfo", "retryDelay": "12.5s"}]}}
    error = await Exchange(answer(429, encode(body))).fail()
    assert error.retry_after_ms == 12_500


# -- what an error says ----------------------------------------------------------------------------------------------


async def test_an_error_has_everything_needed_to_find_it() -> None:
    """LLM-338, LLM-340"""
    error = await Exchange(
        answer(
            400,
            b'{"error":{"message":"bad field","api_key":"abcdef"}}',
            x_request_id="req_1",
            x_ratelimit_limit_requests="10",
            x_ratelimit_remaining_tokens="5",
            anthropic_ratelimit_input_tokens_reset="later",
        )
    ).fail()
    shown = f'{{"error":{{"message":"bad field","api_key":"{REDACTED}"}}}}'
    assert error.message == f"Provider request failed with HTTP 400: {shown}"
    assert (error.reason, error.status, error.retryable) == ("InvalidRequest", 400, False)
    assert error.diagnostics == Diagnostics(
        method="POST",
        url=f"https://h/v1/x?key={REDACTED}&a=b",
        request_headers={"authorization": REDACTED, "accept": "a"},
        status=400,
        response_headers={
            "x-request-id": "req_1",
            "x-ratelimit-limit-requests": "10",
            "x-ratelimit-remaining-tokens": REDACTED,
            "anthropic-ratelimit-input-tokens-reset": REDACTED,
        },
        body=shown,
        request_id="req_1",
        rate_limit={"limit": {"requests": "10"}, "remaining": {"tokens": "5"}, "reset": {"input-tokens": "later"}},
    )


@pytest.mark.parametrize(
    "name", ["x-request-id", "request-id", "x-amzn-requestid", "x-amz-request-id", "x-goog-request-id", "cf-ray"]
)
async def test_the_request_id_under_any_name(name: str) -> None:
    """LLM-338"""
    error = await Exchange(Played([b"no"], 400, {name: "id-1"})).fail()
    assert error.diagnostics is not None
    assert error.diagnostics.request_id == "id-1"


def test_rate_limits_in_both_spellings() -> None:
    """LLM-340"""
    headers = {
        "x-ratelimit-limit-requests": "1",
        "x-ratelimit-reset-tokens": "2s",
        "anthropic-ratelimit-output-tokens-remaining": "3",
        "x-ratelimit-odd": "no",
        "x-ratelimit-limit": "no",
        "anthropic-ratelimit-limit": "no",
        "other": "no",
    }
    assert rate_limits(headers) == {
        "limit": {"requests": "1"},
        "reset": {"tokens": "2s"},
        "remaining": {"output-tokens": "3"},
    }


@pytest.mark.parametrize(("size", "in_message"), [(500, True), (501, False), (BODY_LIMIT, False)])
async def test_only_a_short_body_is_in_the_message(size: int, in_message: bool) -> None:
    """LLM-338"""
    error = await Exchange(answer(400, b"y" * size)).fail()
    assert ("yyy" in error.message) is in_message
    assert error.diagnostics is not None
    assert (error.diagnostics.body, error.diagnostics.body_truncated) == ("y" * size, False)


@pytest.mark.parametrize("size", [BODY_LIMIT + 1, BODY_LIMIT * 10])
async def test_a_long_body_is_cut_and_the_rest_not_read(size: int) -> None:
    """LLM-338, LLM-363"""
    response = Played([b"y" * 4096] * (size // 4096 + 1), 400, {})
    error = await Exchange(response).fail()
    assert error.diagnostics is not None
    assert (len(error.diagnostics.body or ""), error.diagnostics.body_truncated) == (BODY_LIMIT, True)
    assert response.read <= BODY_LIMIT // 4096 + 2
    assert response.closed == 1


@pytest.mark.parametrize("offset", range(BODY_LIMIT - len(KEY) - 2, BODY_LIMIT + 2))
async def test_a_secret_at_the_cut_is_not_shown_in_part(offset: int) -> None:
    """LLM-339"""
    error = await Exchange(answer(400, b"y" * offset + KEY.encode() + b"z" * 100)).fail()
    assert error.diagnostics is not None
    assert KEY[:6] not in (error.diagnostics.body or "")


async def test_a_body_that_breaks_off_does_not_hide_the_status() -> None:
    """LLM-331, LLM-410: what is known is enough to try again."""
    broken = LLMError("Transport", "reset", kind="read")
    error = await Exchange(Played([b"over", broken], 503, {})).fail()
    assert (error.status, error.retryable) == (503, True)
    error = await Exchange(Played([b"slow", broken], 429, {})).fail()
    assert (error.reason, error.status) == ("RateLimit", 429)
    assert error.diagnostics is not None
    assert (error.diagnostics.body, error.diagnostics.body_truncated) == ("slow", True)


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"[" * 16_000, b'{"error":[1]}', b'{"error":{"details":5}}', b"", b"null", b'{"error":null}']
)
async def test_any_body_gives_an_error(body: bytes) -> None:
    """LLM-331"""
    for status in (400, 429, 500):
        assert (await Exchange(answer(status, body)).fail()).status == status


async def test_an_html_page_is_an_error_like_any_other() -> None:
    """LLM-331"""
    page = b"<html><head><title>502 Bad Gateway</title></head></html>"
    error = await Exchange(Played([page], 502, {"content-type": "text/html"})).fail()
    assert (error.reason, error.retryable) == ("ProviderInternal", True)
    assert "502 Bad Gateway" in error.message


async def test_reading_a_body_stops_at_the_limit() -> None:
    """LLM-363"""
    assert await read_bounded(Played([b"ab", b"cd"]), 4) == ("abcd", False)
    assert await read_bounded(Played([b"ab", b"cde"]), 4) == ("abcd", True)


async def test_overflow_of_an_http_error() -> None:
    """LLM-336, LLM-337"""
    body = {"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}
    error = await Exchange(answer(400, encode(body))).fail()
    assert (error.reason, error.classification, error.tokens) == (
        "InvalidRequest",
        "context-overflow",
        (210_000, 200_000),
    )
