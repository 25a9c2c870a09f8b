"""Answers the health operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.protocol.instance import Health

if TYPE_CHECKING:
    from holdfast.server.types import Call


async def get(call: Call) -> Health:
    return Health(healthy=True)
