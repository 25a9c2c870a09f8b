"""Replaces secrets and the home directory in a text for others: what looks like a key or a token, values of variables
with secret-looking names (those of the environment, and those that a text assigns), and user information in addresses.

It is a help and no proof: a secret that looks like an ordinary word stays, and media are not looked into."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from typing import TYPE_CHECKING, Any, Self

from holdfast.core.secret import HIDDEN, is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORTEST = 8
"""Characters of a variable's value that is replaced."""
MEDIA_CHARACTERS = 1_000
"""A longer word of Base64 in a document is the content of a file. To replace a part of it would destroy it."""
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
_ASSIGNED = (
    r"(?<![\w$])([A-Za-z_][\w.-]{0,100})=(\\?)"
    r"(\"(?:[^\"\\\n]|\\[^\"\n])*\\?\"|'[^'\n]*'|[^\s\"'`<>\\][^\s\"'`<>]*)"
)
"""`NAME=value`, as in a file of variables, a command or an address; quoted, or quoted inside of JSON."""
_HARMLESS = frozenset(("true", "false", "none", "null"))
_BASE64 = r"[A-Za-z0-9+/_-]+=*"
_TEXT_URI = r"(data:(?:text/|application/json)[^,]{0,200};base64,)([A-Za-z0-9+/]*=*)"


class Redaction:
    def __init__(self, secrets: frozenset[str], homes: Mapping[str, str], *, active: bool) -> None:
        """`homes` says what takes the place of which directory."""
        self.active = active
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._homes = [
            (re.compile(rf"(?<![\w.-]){re.escape(home)}(?=[/\"'\s<>&:,;)]|$)"), name) for home, name in homes.items()
        ]
        self._pattern = re.compile("|".join(_PATTERNS), re.DOTALL) if active else None
        self._base64, self._text_uri = re.compile(_BASE64), re.compile(_TEXT_URI)
        self._assigned = re.compile(_ASSIGNED)

    @classmethod
    def none(cls) -> Self:
        return cls(frozenset(), {}, active=False)

    @classmethod
    def of(cls, environment: Mapping[str, str], home: str = "~") -> Self:
        """With the values of variables that look like secrets, and `HOME`, in whose place `home` comes."""
        values = {value for name, value in environment.items() if is_secret(name) and len(value) >= SHORTEST}
        here = environment.get("HOME", "").rstrip("/")
        homes = dict.fromkeys((os.path.realpath(here), here), home) if len(here) > 1 else {}
        return cls(frozenset(values), homes, active=True)

    def apply(self, text: str) -> str:
        if self._pattern is None:
            return text
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        text = self._pattern.sub(HIDDEN, text)
        text = self._assigned.sub(_hidden_assignment, text)
        for home, name in self._homes:
            text = home.sub(name, text)
        return text

    def apply_to_json(self, document: bytes) -> bytes:
        """The document with its strings and names replaced. Texts in `data:` URIs are looked into, other media not."""
        if not self.active:
            return document
        try:
            value = self._value(json.loads(document))
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (ValueError, RecursionError):  # half of a surrogate pair, a number without a value
            return self.apply(document.decode("utf-8", "replace")).encode()

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self._string(value)
            case dict():
                return {self.apply(name): self._value(item) for name, item in value.items()}
            case list():
                return [self._value(item) for item in value]
        return value

    def _string(self, text: str) -> str:
        if text.startswith("data:"):
            found = self._text_uri.fullmatch(text)
            return text if found is None else found[1] + self._encoded(found[2])
        if len(text) > MEDIA_CHARACTERS and self._base64.fullmatch(text):
            return text
        return self.apply(text)

    def _encoded(self, content: str) -> str:
        try:
            text = base64.b64decode(content, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return content
        return base64.b64encode(self.apply(text).encode()).decode()


def _hidden_assignment(found: re.Match[str]) -> str:
    name, escape, value = found.groups()
    if value.startswith("$") or value.lower() in _HARMLESS or not is_secret(name):
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}={escape}{quote}{HIDDEN}{escape}{quote}"
