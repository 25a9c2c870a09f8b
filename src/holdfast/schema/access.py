"""Roles of callers, and the tokens that give them."""

from typing import Annotated, Literal

import msgspec

from holdfast.schema.record import Record

Role = Literal["read", "prompt", "approve", "admin"]
ROLES: tuple[Role, ...] = ("read", "prompt", "approve", "admin")
"""Each includes the ones before it."""

TOKEN_PREFIX = "hft_"
"""How every token begins, so that scanners for secrets find it."""
NAME_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
MOST_PROJECTS = 50

TokenName = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]


class TokenInfo(Record):
    """A token without its secret."""

    id: str
    name: str
    role: Role
    projects: tuple[str, ...]
    """Directories that it is limited to, with everything below them; empty: not limited."""
    created: int
    """In milliseconds since the epoch, as the other times."""
    expires: int | None = None
    seen: int | None = None
    """When it was used last, to the minute."""


class NewToken(Record):
    token: str
    """The secret. It is shown once; only its hash is stored."""
    info: TokenInfo


def includes(role: Role, needed: Role) -> bool:
    return ROLES.index(role) >= ROLES.index(needed)
