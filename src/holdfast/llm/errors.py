"""One error with a reason. Messages are fit for people and for the durable record: bounded, without secrets.

InvalidRequest         the request cannot be sent or was refused; `classification` may say context-overflow
Authentication         `kind`: missing, invalid, expired, insufficient-permissions, unknown
RateLimit              try later; QuotaExceeded: do not
ContentPolicy          the provider refused the content
ProviderInternal       the provider failed
Transport              the connection failed; `kind` says where
InvalidProviderOutput  the response cannot be decoded
NoRoute, UnknownProvider
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, unquote

import msgspec

from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.llm.event import Usage

Reason = Literal[
    "InvalidRequest",
    "NoRoute",
    "Authentication",
    "RateLimit",
    "QuotaExceeded",
    "ContentPolicy",
    "ProviderInternal",
    "Transport",
    "InvalidProviderOutput",
    "UnknownProvider",
]
OVERFLOW = "context-overflow"
MODEL_NOT_FOUND = "model-not-found"
REFUSED = (400, 404, 409, 413, 422)
EXCERPT = 500
BODY_LIMIT = 16_384
REDACTED = "<redacted>"


class Diagnostics(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What an operator needs to find the failure at the provider; everything here is redacted and bounded."""

    method: str | None = None
    url: str | None = None
    request_headers: dict[str, str] | None = None
    status: int | None = None
    response_headers: dict[str, str] | None = None
    body: str | None = None
    body_truncated: bool = False
    request_id: str | None = None
    rate_limit: dict[str, dict[str, str]] | None = None


class Answered(msgspec.Struct, frozen=True):
    """What the provider answered where it should have succeeded."""

    status: int | None = None
    code: str | None = None
    retry_after_ms: int | None = None
    raw: str | None = None
    diagnostics: Diagnostics | None = None
    said: str = ""
    """The provider's own words, in short; not kept with the error."""


class LLMError(HoldfastError):
    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        kind: str | None = None,
        classification: str | None = None,
        retryable: bool = False,
        parameter: str | None = None,
        usage: Usage | None = None,
        tokens: tuple[int, ...] = (),
        answered: Answered | None = None,
    ) -> None:
        answered = answered or Answered()
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.kind = kind
        self.classification = classification
        self.retryable = retryable
        self.parameter = parameter
        self.usage = usage
        self.tokens = tokens
        self.status = answered.status
        self.code = answered.code
        self.retry_after_ms = answered.retry_after_ms
        self.raw = answered.raw
        self.diagnostics = answered.diagnostics
        self.said = answered.said

    def reword(self, message: str) -> None:
        self.message = message
        self.args = (message,)

    def redact(self, secrets: Iterable[str]) -> None:
        """Remove secrets that the provider repeated in its answer."""
        secrets = tuple(secrets)
        self.reword(redact(self.message, secrets))
        self.said = redact(self.said, secrets)
        self.raw = redact(self.raw, secrets) if self.raw is not None else None
        self.code = redact(self.code, secrets) if self.code is not None else None


def invalid_request(message: str, *, parameter: str | None = None) -> LLMError:
    """The request was refused before anything was sent."""
    return LLMError("InvalidRequest", message, parameter=parameter)


def invalid_output(message: str, frame: bytes | str = b"") -> LLMError:
    head = frame[: BODY_LIMIT + 1]
    raw = redact(_cut(head.decode("utf-8", "replace") if isinstance(head, bytes) else head, BODY_LIMIT))
    shown = excerpt(raw)
    return LLMError("InvalidProviderOutput", f"{message}{': ' if shown else ''}{shown}", answered=Answered(raw=raw))


# -- classification ------------------------------------------------------------------------------------------------


class Verdict(msgspec.Struct, frozen=True):
    reason: Reason
    kind: str | None = None
    classification: str | None = None
    retryable: bool = False
    tokens: tuple[int, ...] = ()


def classify(status: int | None, body: Any, text: str, code: str | None = None) -> Verdict:
    """Classify an error by its code, then its status, then its text. `status` is None for errors inside a stream."""
    words = _codes(body, code)
    known = next((_BY_CODE[word] for word in words if word in _BY_CODE), None)
    # A rate limit or permission code wins over the text: Bedrock throttles with "Too many tokens".
    if known is None or known.reason in ("InvalidRequest", "ProviderInternal"):
        known = _overflow(words, text, status) or known
    if "RESOURCE_EXHAUSTED" in words and (known is None or known.classification is None):
        return _exhausted(body, text)
    # "Invalid request" is used for many failures: status and text may be more precise.
    if known is not None and (known.reason != "InvalidRequest" or known.classification is not None):
        return known
    low = text.lower()
    if status == 429:
        return Verdict("QuotaExceeded") if re.search(_QUOTA, low) else Verdict("RateLimit", retryable=True)
    if status == 402 or re.search(_CREDIT, low):
        return Verdict("QuotaExceeded")
    if status == 401:
        return Verdict("Authentication", kind="invalid")
    if status == 403:
        return Verdict("Authentication", kind="insufficient-permissions")
    if status == 408:
        return Verdict("Transport", kind="timeout", retryable=True)
    if (status is None or status in REFUSED) and (_NO_MODEL_CODES.intersection(words) or re.search(_NO_MODEL, low)):
        return Verdict("InvalidRequest", kind=MODEL_NOT_FOUND)
    if status in REFUSED:
        return Verdict("ContentPolicy") if re.search(_POLICY, low) else Verdict("InvalidRequest")
    if status is not None and status >= 500:
        return Verdict("ProviderInternal", retryable=True)
    if re.search(_POLICY, low):
        return Verdict("ContentPolicy")
    return known or Verdict("UnknownProvider")


def spoken(body: Any) -> str:
    """The message of a provider's error object, in any of the known shapes."""
    body = _unwrapped(body)
    if not isinstance(body, dict):
        return ""
    error = body.get("error")
    found = (
        error.get("message") if isinstance(error, dict) else error,
        body.get("message"),
        body.get("Message"),
        body.get("detail"),
    )
    return next((text for text in found if isinstance(text, str) and text.strip()), "")


def is_overflow(text: str) -> bool:
    """Whether a provider's message says that the context was too long."""
    if re.search(_NEVER_OVERFLOW, text, re.IGNORECASE):
        return False
    return re.search(_OVERFLOW, text, re.IGNORECASE | re.DOTALL) is not None


def _overflow(words: list[str], text: str, status: int | None) -> Verdict | None:
    named = any(word in ("context_length_exceeded", "model_context_window_exceeded") for word in words)
    spoken = (status is None or status in REFUSED or status >= 500) and is_overflow(text)
    bare = status in (400, 413) and not text.strip()
    if not (named or spoken or bare):
        return None
    numbers = tuple(int(number.replace(",", "")) for number in re.findall(_NUMBER, text))[:4]
    return Verdict("InvalidRequest", classification=OVERFLOW, tokens=numbers)


def _codes(body: Any, code: str | None) -> list[str]:
    found = [code] if code else []
    body = _unwrapped(body)
    error = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(error, str):
        found.append(error)
    if isinstance(error, dict):
        found += [str(error[key]) for key in ("code", "type", "status") if isinstance(error.get(key), str)]
        found += [detail["reason"] for detail in _details(body) if isinstance(detail.get("reason"), str)]
    if isinstance(body, dict) and isinstance(body.get("__type"), str):
        found.append(body["__type"])
    return [word.rpartition("#")[2] for word in found]


def retry_info(body: Any) -> int | None:
    """Milliseconds to wait, from Google's `retryDelay: "12s"` in the body."""
    for detail in _details(body):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (match := re.fullmatch(_SECONDS, delay)):
            return round(float(match[1]) * 1000)
    return None


def _exhausted(body: Any, text: str) -> Verdict:
    """Google uses one code for a rate limit per minute, a daily quota and missing credit. The name of the limit and the
    retry delay tell them apart."""
    violations = [item for detail in _details(body) for item in _list(detail.get("violations"))]
    if any("PerDay" in str(item.get("quotaId")) for item in violations if isinstance(item, dict)):
        return Verdict("QuotaExceeded")
    if retry_info(body) is None and re.search(_QUOTA, text.lower()):
        return Verdict("QuotaExceeded")
    return _RATE


def _details(body: Any) -> list[dict[str, Any]]:
    body = _unwrapped(body)
    error = body.get("error") if isinstance(body, dict) else None
    found = _list(error.get("details")) if isinstance(error, dict) else []
    return [detail for detail in found if isinstance(detail, dict)]


def _unwrapped(body: Any) -> Any:
    """Google answers a streaming request with its error inside a list."""
    return body[0] if isinstance(body, list) and len(body) == 1 else body


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_RATE = Verdict("RateLimit", retryable=True)
_INTERNAL = Verdict("ProviderInternal", retryable=True)
_BY_CODE: dict[str, Verdict] = {
    "rate_limit_error": _RATE,
    "rate_limit_exceeded": _RATE,
    "too_many_requests": _RATE,
    "throttlingException": _RATE,
    "ThrottlingException": _RATE,
    "ModelNotReadyException": _RATE,
    "ServiceQuotaExceededException": Verdict("QuotaExceeded"),
    "insufficient_quota": Verdict("QuotaExceeded"),
    "billing_error": Verdict("QuotaExceeded"),
    "billing_hard_limit_reached": Verdict("QuotaExceeded"),
    "insufficient_balance": Verdict("QuotaExceeded"),
    "insufficient_credits": Verdict("QuotaExceeded"),
    "payment_required": Verdict("QuotaExceeded"),
    "authentication_error": Verdict("Authentication", kind="invalid"),
    "invalid_api_key": Verdict("Authentication", kind="invalid"),
    "API_KEY_INVALID": Verdict("Authentication", kind="invalid"),
    "UNAUTHENTICATED": Verdict("Authentication", kind="invalid"),
    "UnrecognizedClientException": Verdict("Authentication", kind="invalid"),
    "InvalidSignatureException": Verdict("Authentication", kind="invalid"),
    "permission_error": Verdict("Authentication", kind="insufficient-permissions"),
    "PERMISSION_DENIED": Verdict("Authentication", kind="insufficient-permissions"),
    "AccessDeniedException": Verdict("Authentication", kind="insufficient-permissions"),
    "ExpiredTokenException": Verdict("Authentication", kind="expired"),
    "expired_token": Verdict("Authentication", kind="expired"),
    "content_policy_violation": Verdict("ContentPolicy"),
    "content_filter": Verdict("ContentPolicy"),
    "overloaded_error": _INTERNAL,
    "overloaded": _INTERNAL,
    "server_overloaded": _INTERNAL,
    "server_is_overloaded": _INTERNAL,
    "engine_overloaded": _INTERNAL,
    "engine_overloaded_error": _INTERNAL,
    "model_overloaded": _INTERNAL,
    "service_unavailable": _INTERNAL,
    "slow_down": _INTERNAL,
    "internal_error": _INTERNAL,
    "internal_server_error": _INTERNAL,
    "api_error": _INTERNAL,
    "timeout_error": _INTERNAL,
    "server_error": _INTERNAL,
    "internalServerException": _INTERNAL,
    "modelStreamErrorException": _INTERNAL,
    "serviceUnavailableException": _INTERNAL,
    "ServiceUnavailableException": _INTERNAL,
    "InternalServerException": _INTERNAL,
    "ModelErrorException": _INTERNAL,
    "ModelTimeoutException": _INTERNAL,
    "UNAVAILABLE": _INTERNAL,
    "INTERNAL": _INTERNAL,
    "DEADLINE_EXCEEDED": _INTERNAL,
    "invalid_request_error": Verdict("InvalidRequest"),
    "validationException": Verdict("InvalidRequest"),
    "ValidationException": Verdict("InvalidRequest"),
    "not_found_error": Verdict("InvalidRequest"),
    "request_too_large": Verdict("InvalidRequest"),
}

# Compiled on first use, which is never in a successful turn. Repetitions are bounded: a body may be long.
_QUOTA = r"insufficient[ _]quota|quota exceeded|exceeded your (current )?quota"
_CREDIT = r"credit balance|insufficient (credits|funds|balance)"
_NO_MODEL_CODES = frozenset({"model_not_found", "model_not_available", "unknown_model", "invalid_model"})
_NO_MODEL = (
    r"\bmodel:? \S{1,120} (was |is )?(not found|does not exist|not exist)|\bmodel (not found|does not exist|not exist)"
    r"|no such model|unknown model|invalid model|not a valid model|model identifier is invalid"
    r"|models/\S{1,120} is not found|\"message\": ?\"model: "
)
_POLICY = r"content[ _]policy|content management policy|usage polic(y|ies)|safety (system|policy)"
_NEVER_OVERFLOW = r"^\s*(throttling error:|service unavailable:)|rate limit|too many requests|wait before trying again"
_SECONDS = r"(\d{1,9}(?:\.\d{1,9})?)s"
_NUMBER = r"\b\d[\d,]{2,15}\b"
_OVERFLOW = (
    r"prompt is too long|request_too_large|input is too long for requested model|exceeds the context window"
    r"|exceeds (the )?(model'?s )?maximum context length|input token count.{0,200}exceeds the maximum"
    r"|tokens in request more than max tokens allowed|maximum prompt length is \d|reduce the length of the messages"
    r"|maximum context length is [\d,]+ tokens|exceeds (the )?maximum allowed input length of [\d,]+ tokens"
    r"|input \([\d,]+ tokens\) is longer than the model'?s context length"
    r"|(token|context)[^.]{0,60}exceeds the limit of [\d,]+|exceeds the limit of [\d,]+[^.]{0,20}token"
    r"|exceeds the available context size|greater than the context length|context window exceeds limit"
    r"|exceeded model token limit|context[_ ]length[_ ]exceeded|request entity too large"
    r"|context length is only [\d,]+ tokens|input length.{0,100}exceeds.{0,100}context length|prompt too long"
    r"|exceeded (max )?context length|too large for model with [\d,]+ maximum context length"
    r"|prompt has [\d,]+ tokens, but the configured context size is [\d,]+ tokens|model_context_window_exceeded"
    r"|exceed context limit: \d|longer than the maximum model length of \d"
    r"|too many tokens|token limit exceeded|^\s*(400|413)?\s*\(no body\)"
)


# -- redaction -----------------------------------------------------------------------------------------------------


def excerpt(text: str, secrets: Iterable[str] = (), limit: int = EXCERPT) -> str:
    """A short, redacted excerpt of a provider's text."""
    text = redact(text, secrets).strip()
    return text if len(text) <= limit else f"{_cut(text, limit)} ... ({len(text) - limit} more characters)"


def _cut(text: str, limit: int) -> str:
    """Cut between words: half of a secret would not be recognised."""
    return text if len(text) <= limit else text[:limit].rstrip(_WORD)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    # The longest first: a shorter one that is part of it would leave the rest visible.
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= 4:
            text = text.replace(secret, REDACTED).replace(quote(secret, safe=""), REDACTED)
    return re.sub(_CREDENTIAL, lambda found: f"{found[1]}{found[2] or ''}{REDACTED}", text, flags=re.IGNORECASE)


def redact_headers(headers: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    return {name: REDACTED if is_secret_name(name, names) else value for name, value in headers.items()}


def redact_url(url: str, names: Iterable[str] = ()) -> str:
    base, mark, query = url.partition("?")
    base = re.sub(_USER, rf"\1{REDACTED}@", base)
    pairs = [pair.partition("=") for pair in query.split("&")] if mark else []
    shown = [
        f"{name}={REDACTED}" if is_secret_name(name, (*names, *_QUERY_NAMES)) else f"{name}{equals}{value}"
        for name, equals, value in pairs
    ]
    return base + mark + "&".join(shown)


def is_secret_name(name: str, more: Iterable[str] = ()) -> bool:
    low = name.lower()
    return re.search(_SECRET_NAME, low) is not None or low in {word.lower() for word in more}


def sent_secrets(url: str, headers: Mapping[str, str]) -> set[str]:
    """Secrets of a request, by the names of its headers and query parameters: header values with and without their
    scheme, query values, and the password in the URL."""
    values = [value for name, value in headers.items() if is_secret_name(name)]
    found = {word for value in values for word in (value, value.rpartition(" ")[2])}
    pairs = (pair.partition("=") for pair in url.partition("?")[2].split("&"))
    found |= {unquote(value) for name, _, value in pairs if is_secret_name(name, _QUERY_NAMES)}
    if (user := re.match(_USER, url)) is not None:
        found.add(unquote(user[2].rpartition(":")[2]))
    return found


_WORD = string.ascii_letters + string.digits + "+/=_-.%~"
_QUERY_NAMES = ("key", "sig")
_SECRET_NAME = r"authorization|api[-_]?key|token|secret|credential|signature|password|cookie"
_USER = r"^([A-Za-z][A-Za-z0-9+.-]*://)([^/@]*)@"
# Repetitions before the value are bounded, since the text may be long. Counts of tokens are not secret.
_CREDENTIAL = (
    r"""((?:(?:authorization|api[-_]?key|token(?!s)|secret|credential|signature|password)[\w-]{0,64}|\bkey)"""
    r"""\\?["']?\s{0,8}[:=]\s{0,8})"""
    r"""(?:(\\?["'])(?:bearer\s|basic\s)?[^"'\\]{4,}|(?:bearer\s|basic\s)?(?!\d+(?:\.\d+)?(?![\w-])|null\b|true\b|false\b)"""
    r"""[^\s"',;&{}\[\]\\]{4,})"""
)
