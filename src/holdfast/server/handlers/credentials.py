"""Answers the credential operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.server.types import Call


async def update(call: Call) -> None:
    await call.runtime.credentials.update(call.params.credential_id, label=call.payload.label)


async def remove(call: Call) -> None:
    await call.runtime.credentials.remove(call.params.credential_id)
