"""Random secrets, and how they are stored."""

from __future__ import annotations

import secrets
from hashlib import sha256

BYTES = 32


def new_token() -> str:
    """256 random bits, as text that needs no escaping in a URL, a cookie or a header."""
    return secrets.token_urlsafe(BYTES)


def hashed(token: str) -> str:
    """What is stored in place of a token. A fast hash is enough: nobody guesses 256 random bits."""
    return sha256(token.encode(errors="replace")).hexdigest()
