"""Tokens with which others than the owner use the server, each with a role."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.schema.access import MOST_PROJECTS, NewToken, Role, TokenInfo, TokenName
from holdfast.schema.errors import ConflictError, NotFoundError
from holdfast.schema.record import Record

LONGEST_SECONDS = 10 * 366 * 24 * 3600


class TokenPath(Record):
    name: TokenName


class CreateTokenPayload(Record):
    name: TokenName
    role: Role
    seconds: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_SECONDS)] | None = None
    """How long it is valid; without it, until it is revoked."""
    projects: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_PROJECTS)] = ()
    """Existing directories. With any, the token is limited to Sessions and files in them and below."""


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    replace(endpoint, extension=True)
    for endpoint in (
        endpoint(
            "tokens.list",
            "GET /api/token",
            "holdfast.token.list",
            "The tokens, without their secrets, ordered by name.",
            role="admin",
            data=list[TokenInfo],
        ),
        endpoint(
            "tokens.create",
            "POST /api/token",
            "holdfast.token.create",
            "Make a token. The answer has its secret, which is not shown again.",
            role="admin",
            payload=CreateTokenPayload,
            data=NewToken,
            errors=(ConflictError,),
        ),
        endpoint(
            "tokens.revoke",
            "DELETE /api/token/{name}",
            "holdfast.token.revoke",
            "Revoke a token. Streams, terminals and sign-ins of the page that were opened with it end.",
            role="admin",
            params=TokenPath,
            errors=(NotFoundError,),
        ),
    )
)
