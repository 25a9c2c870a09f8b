"""Hides secrets in displayed text: substituted variables, values with secret-looking names, credentials in URLs."""

from __future__ import annotations

import re
from functools import lru_cache

HIDDEN = "***"

# Compiled on first use.
_NAME = (
    r"(?i)auth(?!ors?$)|(?:api|access|private)[-_]?key|_(?:key|pat)$|secret|passw(?:or)?d|passphrase|cookie|credential"
    r"|token(?!s)|(?:^|_|pg)pass$|(?:^|[-_])pwd$|webhook"
)
_USER = r"(?<=//)[^/@\s]*@"


def is_secret(name: str) -> bool:
    """Whether a value with this name is probably a secret."""
    return re.search(_NAME, name) is not None


def hide(text: str, secrets: frozenset[str]) -> str:
    """Replace secrets in a text. A secret of up to three characters is replaced only if it is the whole text; otherwise
    every text would become unreadable."""
    for secret in sorted(secrets, key=len, reverse=True):
        if text == secret:
            return HIDDEN
        if len(secret) > 3:
            text = text.replace(secret, HIDDEN)
    return text


@lru_cache(maxsize=1024)
def public_address(url: str) -> str:
    """The URL without user information and without secret parameters."""
    from holdfast.llm.errors import redact_url

    return redact_url(re.sub(_USER, "", url))
