"""What is never shown: values that variables stood for, values under names that say so, credentials in addresses."""

from __future__ import annotations

import re
from functools import lru_cache

HIDDEN = "***"

# Compiled when something is shown.
_NAME = (
    r"(?i)auth(?!ors?$)|(?:api|access|private)[-_]?key|_(?:key|pat)$|secret|password|passphrase|cookie|credential"
    r"|token(?!s)"
)
_USER = r"(?<=//)[^/@\s]*@"


def is_secret(name: str) -> bool:
    """Whether what has this name is likely to be a key."""
    return re.search(_NAME, name) is not None


def hide(text: str, secrets: frozenset[str]) -> str:
    """For showing. A secret of three letters hides only what equals it, or every text would be unreadable."""
    for secret in sorted(secrets, key=len, reverse=True):
        if text == secret:
            return HIDDEN
        if len(secret) > 3:
            text = text.replace(secret, HIDDEN)
    return text


@lru_cache(maxsize=1024)
def public_address(url: str) -> str:
    """Without a user and without parameters that hold a key."""
    from holdfast.llm.errors import redact_url

    return redact_url(re.sub(_USER, "", url))
