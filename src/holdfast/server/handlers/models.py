"""Answers the model operations. What leaves has no secrets: the catalog gives public records only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.catalog import ModelInfo
    from holdfast.server.types import Call


async def list(call: Call) -> Sequence[ModelInfo]:
    async with call.services as services:
        await services.catalog.ready()
        return services.catalog.models()
