"""Answers the reference operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.reference.reference import Reference
    from holdfast.server.types import Call


async def list(call: Call) -> Sequence[Reference]:
    async with call.services as services:
        await services.catalog.ready()
        return services.context.references.list()
