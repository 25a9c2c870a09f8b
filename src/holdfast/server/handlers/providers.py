"""Answers the provider operations. What leaves has no secrets: the catalog gives public records only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.exceptions import ProviderNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.catalog import ProviderInfo
    from holdfast.server.types import Call


async def list(call: Call) -> Sequence[ProviderInfo]:
    async with call.services as services:
        await services.catalog.ready()
        return services.catalog.providers()


async def get(call: Call) -> ProviderInfo:
    id: str = call.params.provider_id
    async with call.services as services:
        await services.catalog.ready()
        found = services.catalog.provider(id)
    if found is None:
        raise ProviderNotFound(id)
    return found
