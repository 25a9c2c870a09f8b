"""Replaces secrets and the home directory in a text for others: what looks like a key or a token, values of variables
with secret-looking names, and user information in addresses.

It is a help and no proof: a secret that looks like an ordinary word stays."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

from holdfast.core.secret import HIDDEN, is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORTEST = 8
"""Characters of a variable's value that is replaced."""
_PATTERNS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^\"<]*?-----END [A-Z ]*PRIVATE KEY-----",
    r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    r"\bA[KS]IA[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*",
    r"(?<=://)[^/@\s\"'<>]+:[^/@\s\"'<>]+(?=@)",
    r"(?i:(?<=bearer )[A-Za-z0-9._~+/-]{12,}=*)",
)


class Redaction:
    def __init__(self, secrets: frozenset[str], home: str | None, *, active: bool) -> None:
        self.active = active
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._home = home
        self._pattern = re.compile("|".join(_PATTERNS), re.DOTALL) if active else None

    @classmethod
    def none(cls) -> Self:
        return cls(frozenset(), None, active=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """With the values of variables that look like secrets, and `HOME`."""
        values = {value for name, value in environment.items() if is_secret(name) and len(value) >= SHORTEST}
        home = environment.get("HOME", "").rstrip("/")
        return cls(frozenset(values), home if len(home) > 1 else None, active=True)

    def apply(self, text: str) -> str:
        if self._pattern is None:
            return text
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        text = self._pattern.sub(HIDDEN, text)
        return text if self._home is None else re.sub(re.escape(self._home) + r"(?=[/\"'\s<>&:,;)]|$)", "~", text)
