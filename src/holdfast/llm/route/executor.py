"""Sends a compiled request once. Its errors carry diagnostics without secrets."""

from __future__ import annotations

import re
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from holdfast.llm.errors import (
    BODY_LIMIT,
    EXCERPT,
    Answered,
    Diagnostics,
    LLMError,
    classify,
    excerpt,
    redact,
    redact_headers,
    redact_url,
    retry_info,
    spoken,
)
from holdfast.schema.codec import decode_any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.llm.route.transport import HttpRequest, HttpResponse, Transport

REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid", "x-amz-request-id", "x-goog-request-id", "cf-ray")
MARGIN = 4096
CODE_LIMIT = 100
EPOCH_SECONDS = 1e9
"""Larger numbers are timestamps, not durations: this one is in 2001."""
EPOCH_MILLIS = 1e11
LATEST_MILLIS = 1e14
_DURATION = (
    r"(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,7})m(?!s))?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,12}(?:\.\d{1,9})?)ms)?"
)
_UNITS = (86_400_000, 3_600_000, 60_000, 1000, 1)


async def exchange(
    transport: Transport, request: HttpRequest, secrets: tuple[str, ...], now: Callable[[], float] = time.time
) -> HttpResponse:
    """A response with status 200, or an LLMError."""
    try:
        response = await transport.send(request)
    except LLMError as error:
        error.redact(secrets)
        raise
    if response.status == 200:
        return response
    raise await _failure(request, response, secrets, now())


async def _failure(request: HttpRequest, response: HttpResponse, secrets: tuple[str, ...], now: float) -> LLMError:
    try:
        # Slightly more than is shown, so that no secret is cut before redaction.
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
        tokens=verdict.tokens,
        answered=Answered(
            status=response.status,
            code=code,
            retry_after_ms=retry_after(response.headers, body, now, limited=verdict.reason == "RateLimit"),
            diagnostics=diagnostics,
            said=excerpt(spoken(body), secrets) or detail,
        ),
    )


async def read_bounded(response: HttpResponse, limit: int = BODY_LIMIT) -> tuple[str, bool]:
    """The body up to a limit, and whether it is incomplete."""
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
    # Read before redaction, which removes headers with `token` in their names.
    return {
        kind: {key: redact(value, secrets) for key, value in found.items()}
        for kind, found in rate_limits(headers).items()
    }


def _shown(headers: Mapping[str, str], secrets: tuple[str, ...]) -> dict[str, str]:
    return {name: redact(value, secrets) for name, value in redact_headers(headers).items()}


def retry_after(headers: Mapping[str, str], body: object, now: float, *, limited: bool = False) -> int | None:
    """Milliseconds; negative values count as zero. `limited`: a rate limit is exhausted, so its
    reset time counts if the server gives no other."""
    if (value := _number(headers.get("retry-after-ms"))) is not None:
        return max(0, int(value))
    given = headers.get("retry-after")
    if given is not None:
        if (value := _number(given)) is not None:
            return max(0, int(value * 1000))
        if (moment := _moment(given)) is not None:
            return max(0, int((moment - now) * 1000))
    asked = retry_info(body)
    return limit_reset(headers, now) if asked is None and limited else asked


def limit_reset(headers: Mapping[str, str], now: float) -> int | None:
    """Milliseconds until every exhausted limit is reset. Limits with something remaining do not count."""
    found = rate_limits(headers)
    remaining = {"": headers.get("x-ratelimit-remaining"), **found.get("remaining", {})}
    given = {"": headers.get("x-ratelimit-reset", ""), **found.get("reset", {})}
    resets = [
        millis
        for key, text in given.items()
        if _number(remaining.get(key)) in (None, 0.0) and (millis := _reset(text, now)) is not None
    ]
    return max(resets, default=None)


def _reset(text: str, now: float) -> int | None:
    """A number of seconds, a timestamp in seconds or milliseconds, an ISO date, or a duration like `6m0.5s`."""
    text = text.strip()
    if (value := _number(text, LATEST_MILLIS)) is not None:
        if value > EPOCH_MILLIS:
            return max(0, int(value - now * 1000))
        return max(0, int((value - now if value > EPOCH_SECONDS else value) * 1000))
    if (parts := re.fullmatch(_DURATION, text)) is not None and text:
        return int(sum(float(number) * unit for number, unit in zip(parts.groups("0"), _UNITS, strict=True)))
    try:
        from datetime import UTC, datetime

        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(0, int((moment.timestamp() - now) * 1000))
    except (ValueError, OverflowError):
        return None


def _moment(date: str) -> float | None:
    """Seconds since 1970 of an HTTP date, in UTC if it names no zone."""
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


def _number(text: str | None, most: float = 1e12) -> float | None:
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if abs(value) < most else None
