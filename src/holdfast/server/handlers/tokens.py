"""Handlers of `protocol/tokens.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.server.locations import existing_location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.protocol import tokens as protocol
    from holdfast.schema.access import NewToken, TokenInfo
    from holdfast.server.types import ApiCall


async def list(call: ApiCall) -> Sequence[TokenInfo]:
    return await call.runtime.access_tokens.all()


async def create(call: ApiCall) -> NewToken:
    payload: protocol.CreateTokenPayload = call.payload
    projects = [existing_location(each, None, kind="Payload").directory for each in payload.projects]
    return await call.runtime.access_tokens.create(
        payload.name, payload.role, seconds=payload.seconds, projects=projects
    )


async def revoke(call: ApiCall) -> None:
    revoked = await call.runtime.access_tokens.revoke(call.params.name)
    call.end(revoked.id)
