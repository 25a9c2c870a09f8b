"""Forms that ask a person to sign in to a service."""

from __future__ import annotations

import hashlib

AUTHORIZATION = "mcp-authorization"
"""The kind in the metadata of such a form."""
SIGNED_IN = "signedIn"
"""The key of its only field."""


def token_digest(token: str | None) -> str | None:
    """Tells whether a token is the one that was refused, without keeping it."""
    return hashlib.sha256(token.encode()).hexdigest()[:16] if token is not None else None
