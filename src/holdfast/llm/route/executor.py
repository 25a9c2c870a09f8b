"""Sends a compiled request: credentials, retries before the first byte, and errors with everything needed to understand
them and nothing that must stay secret."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from holdfast.llm.errors import (
    BODY_LIMIT,
    EXCERPT,
    Diagnostics,
    LLMError,
    classify,
    excerpt,
    redact,
    redact_headers,
    redact_url,
    retry_info,
)
from holdfast.schema.codec import decode_any
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.llm.route.transport import HttpRequest, HttpResponse, Transport

REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid", "x-amz-request-id", "x-goog-request-id", "cf-ray")
MARGIN = 4096
CODE_LIMIT = 100


class Retry(Frozen):
    """Only before a successful status. Longer than `cap_ms` is not waited for here: the error says how long."""

    attempts: int = 3
    base_ms: int = 500
    cap_ms: int = 10_000
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    now: Callable[[], float] = time.time
    on_retry: Callable[[int, LLMError, int], None] | None = None
    """Called with the attempt that failed, why, and how many milliseconds until the next."""


DEFAULT_RETRY = Retry()


async def exchange(
    transport: Transport, request: HttpRequest, secrets: tuple[str, ...], retry: Retry = DEFAULT_RETRY
) -> HttpResponse:
    """A response with status 200, or an LLMError."""
    for attempt in range(1, retry.attempts + 1):
        try:
            response = await transport.send(request)
            if response.status == 200:
                return response
            error = await _failure(request, response, secrets, retry.now())
        except LLMError as failed:
            failed.redact(secrets)
            error = failed
        delay = _delay(error, attempt, retry)
        if delay is None:
            raise error
        if retry.on_retry is not None:
            retry.on_retry(attempt, error, delay)
        await retry.sleep(delay / 1000)
    raise AssertionError("unreachable: the last attempt has no delay")


def _delay(error: LLMError, attempt: int, retry: Retry) -> int | None:
    """Milliseconds until the next attempt, or None when there is none."""
    if attempt >= retry.attempts or not error.retryable:
        return None
    if error.retry_after_ms is not None:
        return error.retry_after_ms if error.retry_after_ms <= retry.cap_ms else None
    jitter = 0.8 + 0.4 * retry.chance()
    return min(retry.cap_ms, int(retry.base_ms * 2 ** (attempt - 1) * jitter))


async def _failure(request: HttpRequest, response: HttpResponse, secrets: tuple[str, ...], now: float) -> LLMError:
    try:
        # A little more than is shown, so that no secret is cut in two before it is found.
        raw, truncated = await read_bounded(response, BODY_LIMIT + MARGIN)
    finally:
        await response.close()
    shown = redact(raw, secrets)
    try:
        body = decode_any(raw)
    except (msgspec.DecodeError, RecursionError):
        body = None
    headers = _shown(response.headers, secrets)
    code = headers.get("x-amzn-errortype", "").partition(":")[0][:CODE_LIMIT] or None
    verdict = classify(response.status, body, raw, code)
    detail = excerpt(shown) if len(shown) <= EXCERPT else ""
    diagnostics = Diagnostics(
        method="POST",
        url=redact_url(redact(request.url, secrets)),
        request_headers=_shown(request.headers, secrets),
        status=response.status,
        response_headers=headers,
        body=shown[:BODY_LIMIT],
        body_truncated=truncated or len(shown) > BODY_LIMIT,
        request_id=next((headers[name] for name in REQUEST_IDS if name in headers), None),
        rate_limit=_limits(response.headers, secrets) or None,
    )
    return LLMError(
        verdict.reason,
        f"Provider request failed with HTTP {response.status}{': ' if detail else ''}{detail}",
        kind=verdict.kind,
        classification=verdict.classification,
        retryable=verdict.retryable,
        retry_after_ms=retry_after(response.headers, body, now),
        status=response.status,
        code=code,
        tokens=verdict.tokens,
        diagnostics=diagnostics,
    )


async def read_bounded(response: HttpResponse, limit: int = BODY_LIMIT) -> tuple[str, bool]:
    """The body, and whether there was more of it. One that breaks off counts for what arrived."""
    body = b""
    try:
        async with aclosing(response.chunks()) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                body += chunk
                if len(body) > limit:
                    break
    except LLMError:
        return body[:limit].decode("utf-8", "replace"), True
    return body[:limit].decode("utf-8", "replace"), len(body) > limit


def _limits(headers: Mapping[str, str], secrets: tuple[str, ...]) -> dict[str, dict[str, str]]:
    # Their names speak of tokens, so they are read before names decide what is shown.
    return {
        kind: {key: redact(value, secrets) for key, value in found.items()}
        for kind, found in rate_limits(headers).items()
    }


def _shown(headers: Mapping[str, str], secrets: tuple[str, ...]) -> dict[str, str]:
    return {name: redact(value, secrets) for name, value in redact_headers(headers).items()}


def retry_after(headers: Mapping[str, str], body: object, now: float) -> int | None:
    """Milliseconds; negative values count as zero."""
    if (value := _number(headers.get("retry-after-ms"))) is not None:
        return max(0, int(value))
    given = headers.get("retry-after")
    if given is not None:
        if (value := _number(given)) is not None:
            return max(0, int(value * 1000))
        if (moment := _moment(given)) is not None:
            return max(0, int((moment - now) * 1000))
    return retry_info(body)


def _moment(date: str) -> float | None:
    """Seconds since 1970 of an HTTP date, which is Greenwich's time also where it does not say so."""
    from datetime import UTC
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def rate_limits(headers: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """`{limit|remaining|reset: {key: value}}` from both spellings in use."""
    found: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        kind = key = ""
        if name.startswith("x-ratelimit-"):
            kind, _, key = name.removeprefix("x-ratelimit-").partition("-")
        elif name.startswith("anthropic-ratelimit-"):
            key, _, kind = name.removeprefix("anthropic-ratelimit-").rpartition("-")
        if kind in ("limit", "remaining", "reset") and key:
            found.setdefault(kind, {})[key] = value
    return found


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if abs(value) < 1e12 else None
