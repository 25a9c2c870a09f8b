"""One error with a reason. Messages are fit for people and for the durable record: bounded, without secrets."""

from __future__ import annotations

import re
from typing import Literal

Reason = Literal[
    "InvalidRequest",
    "Authentication",
    "RateLimit",
    "QuotaExceeded",
    "ProviderInternal",
    "Transport",
    "InvalidProviderOutput",
    "UnknownProvider",
]

EXCERPT = 500


class LLMError(Exception):
    def __init__(self, reason: Reason, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status


def http_error(status: int, body: str, secrets: tuple[str, ...]) -> LLMError:
    reason: Reason
    match status:
        case 401 | 403:
            reason = "Authentication"
        case 402:
            reason = "QuotaExceeded"
        case 429:
            reason = "QuotaExceeded" if "insufficient_quota" in body else "RateLimit"
        case 400 | 404 | 409 | 413 | 422:
            reason = "InvalidRequest"
        case _ if status >= 500:
            reason = "ProviderInternal"
        case _:
            reason = "UnknownProvider"
    detail = excerpt(body, secrets)
    return LLMError(
        reason, f"Provider request failed with HTTP {status}{': ' if detail else ''}{detail}", status=status
    )


def excerpt(text: str, secrets: tuple[str, ...] = ()) -> str:
    """A short, redacted piece of what a provider said."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "<redacted>")
    text = _CREDENTIAL.sub(r"\1<redacted>", text).strip()
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]} ... ({len(text) - EXCERPT} more characters)"


_CREDENTIAL = re.compile(
    r"""((?:authorization|api[-_]?key|(?:access|refresh|id)?[-_]?token|secret|credential|signature)["']?\s*[:=]\s*["']?(?:bearer\s+)?)[^\s"',&]{4,}""",
    re.IGNORECASE,
)
