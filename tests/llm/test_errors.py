"""Errors by what the provider says: structure first, status then, text last."""

from __future__ import annotations

import time
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.llm.errors import OVERFLOW, LLMError, Reason, classify, excerpt, invalid_output, is_overflow
from holdfast.schema.codec import encode


def verdict(status: int | None, text: str = "", body: Any = None, code: str | None = None) -> tuple[Any, ...]:
    found = classify(status, body, text or (encode(body).decode() if body is not None else ""), code)
    return (found.reason, found.kind, found.classification, found.retryable)


def error(**fields: Any) -> dict[str, Any]:
    return {"error": fields}


# -- the type --------------------------------------------------------------------------------------------------------


def test_the_reasons_are_those_of_the_rule() -> None:
    """LLM-330"""
    assert set(get_args(Reason)) == {
        *("InvalidRequest", "NoRoute", "Authentication", "RateLimit", "QuotaExceeded", "ContentPolicy"),
        *("ProviderInternal", "Transport", "InvalidProviderOutput", "UnknownProvider"),
    }


def test_an_error_is_not_retryable_unless_it_says_so() -> None:
    """LLM-330"""
    assert not LLMError("RateLimit", "x").retryable
    for status in (400, 401, 403, 404, 402, 413, 422, 451):
        assert verdict(status, "no")[3] is False
    for status in (429, 500, 502, 503, 504, 529, 408):
        assert verdict(status, "no")[3] is True


# -- by status -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (401, "no", ("Authentication", "invalid")),
        (403, "no", ("Authentication", "insufficient-permissions")),
        (429, "slow down", ("RateLimit", None)),
        (429, "You exceeded your current quota", ("QuotaExceeded", None)),
        (429, "insufficient_quota", ("QuotaExceeded", None)),
        (400, "no", ("InvalidRequest", None)),
        (404, "no", ("InvalidRequest", None)),
        (404, "no such model", ("InvalidRequest", "model-not-found")),
        (409, "no", ("InvalidRequest", None)),
        (413, "request too large", ("InvalidRequest", None)),
        (422, "no", ("InvalidRequest", None)),
        (500, "oops", ("ProviderInternal", None)),
        (503, "", ("ProviderInternal", None)),
        (599, "", ("ProviderInternal", None)),
        (418, "teapot", ("UnknownProvider", None)),
        (302, "", ("UnknownProvider", None)),
        (400, "this violates our content policy", ("ContentPolicy", None)),
    ],
)
def test_an_error_is_classified_by_status_and_text(status: int, text: str, expected: tuple[str, str | None]) -> None:
    """LLM-331, LLM-335"""
    assert verdict(status, text)[:3] == (*expected, None)


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [
        (429, "limit for field safety_settings reached", "RateLimit"),
        (400, "unknown field safety_settings", "InvalidRequest"),
        (400, '{"error":{"param":"safety_identifier","message":"bad"}}', "InvalidRequest"),
        (500, "safety_filter crashed", "ProviderInternal"),
    ],
)
def test_the_word_safety_alone_is_no_policy(status: int, text: str, reason: str) -> None:
    """LLM-332"""
    assert verdict(status, text)[0] == reason


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (402, error(message="pay"), ("QuotaExceeded", None, False)),
        (
            400,
            error(type="invalid_request_error", message="Your credit balance is too low to access the API"),
            ("QuotaExceeded", None, False),
        ),
        (408, error(message="timeout"), ("Transport", "timeout", True)),
        (401, error(type="invalid_request_error", code=None, message="no key"), ("Authentication", "invalid", False)),
        (403, error(type="invalid_request_error"), ("Authentication", "insufficient-permissions", False)),
        (429, error(type="invalid_request_error"), ("RateLimit", None, True)),
        (500, error(type="invalid_request_error"), ("ProviderInternal", None, True)),
        (400, error(code="invalid_api_key", type="invalid_request_error"), ("Authentication", "invalid", False)),
        (
            400,
            error(status="INVALID_ARGUMENT", details=[{"reason": "API_KEY_INVALID"}]),
            ("Authentication", "invalid", False),
        ),
        (429, error(code="insufficient_quota", type="insufficient_quota"), ("QuotaExceeded", None, False)),
        (403, {"__type": "com.amazon#ExpiredTokenException"}, ("Authentication", "expired", False)),
        (400, {"__type": "ThrottlingException"}, ("RateLimit", None, True)),
        (200, error(type="overloaded_error"), ("ProviderInternal", None, True)),
        (400, error(code="content_policy_violation"), ("ContentPolicy", None, False)),
        (400, error(code="content_filter"), ("ContentPolicy", None, False)),
    ],
)
def test_a_structured_error_comes_first(status: int, body: Any, expected: tuple[Any, ...]) -> None:
    """LLM-332: but "invalid request" is said for anything, so status and text still count then."""
    reason, kind, _, retryable = verdict(status, body=body)
    assert (reason, kind, retryable) == expected


def test_the_error_type_header_of_aws_counts() -> None:
    """LLM-332"""
    assert verdict(400, "x", code="ThrottlingException")[0] == "RateLimit"
    assert verdict(403, "x", code="ExpiredTokenException")[:2] == ("Authentication", "expired")


# -- overflow --------------------------------------------------------------------------------------------------------

OVERFLOWS = [
    "prompt is too long: 200001 tokens > 200000 maximum",
    "request_too_large: the request exceeds",
    "Input is too long for requested model.",
    "Your input exceeds the context window of this model",
    "exceeds the model's maximum context length of 8192",
    "exceeds maximum context length (8192)",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)",
    "tokens in request more than max tokens allowed",
    "This model's maximum prompt length is 131072 but the request contains 150000 tokens",
    "Please reduce the length of the messages or completion",
    "This model's maximum context length is 8192 tokens",
    "exceeds the maximum allowed input length of 4096 tokens",
    "exceeds maximum allowed input length of 4,096 tokens",
    "The input (5000 tokens) is longer than the model's context length (4096 tokens)",
    "the token count exceeds the limit of 4096",
    "the request exceeds the available context size",
    "tokens to keep from the initial prompt is greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "context_length_exceeded",
    "Context Length Exceeded",
    "413 Request Entity Too Large",
    "context length is only 2048 tokens",
    "input length 3000 exceeds the maximum context length",
    "PROMPT TOO LONG",
    "exceeded max context length",
    "exceeded context length",
    "too large for model with 8192 maximum context length",
    "the prompt has 9000 tokens, but the configured context size is 8192 tokens",
    "model_context_window_exceeded",
    "input length and `max_tokens` exceed context limit: 199000 + 21333 > 200000",
    "The decoder prompt (length 9000) is longer than the maximum model length of 8192",
    "too many tokens in the request",
    "token limit exceeded",
    "400 (no body)",
    "413 (no body)",
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_every_known_sentence_is_overflow(text: str) -> None:
    """LLM-333, LLM-336: in an HTTP error and in a stream alike, whatever the case."""
    assert is_overflow(text)
    assert is_overflow(text.upper())
    for status in (400, 404, 409, 413, 422, None):
        assert verdict(status, text)[:3] == ("InvalidRequest", None, OVERFLOW)


@pytest.mark.parametrize("status", [400, 413])
def test_no_body_at_all_is_overflow(status: int) -> None:
    """LLM-333"""
    assert verdict(status, "")[2] == OVERFLOW
    assert verdict(404, "")[2] is None


@pytest.mark.parametrize(
    "text",
    [
        "Throttling error: too many tokens",
        "Service unavailable: prompt is too long",
        "rate limit reached: too many tokens per minute",
        "429 Too Many Requests: token limit exceeded",
    ],
)
def test_throttling_is_never_overflow(text: str) -> None:
    """LLM-334"""
    assert not is_overflow(text)
    for status in (400, 413, None):
        assert verdict(status, text)[2] is None


@pytest.mark.parametrize("text", ["request too large", "image exceeds the limit of 5242880 bytes", "bad field", "oops"])
def test_other_refusals_are_not_overflow(text: str) -> None:
    """LLM-335, LLM-337"""
    for status in (400, 413):
        assert verdict(status, text)[:3] == ("InvalidRequest", None, None)


@pytest.mark.parametrize("status", [400, 402, 403, 451, 500, 503])
def test_a_code_says_overflow_on_any_status(status: int) -> None:
    """LLM-337"""
    assert verdict(status, body=error(code="context_length_exceeded", message="no"))[2] == OVERFLOW


def test_a_rate_limit_of_tokens_is_no_overflow() -> None:
    """LLM-334, LLM-331: 429 is never read as one."""
    assert verdict(429, "too many tokens")[:3] == ("RateLimit", None, None)


def test_the_numbers_of_an_overflow_are_reported() -> None:
    """LLM-337"""
    assert classify(400, None, "prompt is too long: 210,000 tokens > 200000 maximum").tokens == (210_000, 200_000)


# -- whatever a provider says ----------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "code", "type", "status", "details", "reason", "__type", "x"]), inner
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.none() | st.integers(100, 599), JSON, st.text(max_size=40))
def test_no_shape_of_an_error_breaks_its_classification(status: int | None, body: Any, text: str) -> None:
    assert classify(status, body, text).reason in get_args(Reason)


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: " + "9" * 10_000,
        "input length " * 1000,
        "input length exceeds " * 800,
        "input token count " * 900,
        "token " * 3000 + "exceeds the limit of",
        "context " * 2000,
        "A" * 16_384,
        "api_key" * 2000,
        'token="' + "x" * 16_000,
        "key:" * 4000,
    ],
)
def test_errors_of_any_text_are_classified_in_linear_time(text: str) -> None:
    """LLM-338: a whole body is searched and redacted, so its shape may not matter."""
    started = time.process_time()
    classify(400, None, text)
    excerpt(text)
    assert time.process_time() - started < 1


def test_unreadable_output_is_shown_bounded_and_redacted() -> None:
    """LLM-073, LLM-339"""
    frame = b'{"api_key":"sk-0123456789", "x": "\xff\xfe"} ' + b"A" * 10_000_000
    started = time.process_time()
    shown = invalid_output("bad", frame)
    assert time.process_time() - started < 2
    assert shown.reason == "InvalidProviderOutput"
    assert "sk-0123456789" not in shown.message + (shown.raw or "")
    assert len(shown.message) < 600
    assert len(shown.raw or "") <= 16_384
    assert invalid_output("bad", b"short").raw == "short"
