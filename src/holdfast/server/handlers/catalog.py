"""Handlers of `protocol/catalog.py`. All records are returned without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.catalog.public import public_request
from holdfast.schema.exceptions import ProviderNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.agent import Agent
    from holdfast.schema.catalog import CommandInfo, ModelInfo, ProviderInfo, ReferenceInfo, SkillInfo
    from holdfast.server.types import ApiCall


async def agents(call: ApiCall) -> Sequence[Agent]:
    async with call.services as services:
        await services.catalog.ready()
        secrets = services.config.current.secrets
        return [replace(agent, request=public_request(agent.request, secrets)) for agent in services.agents.list()]


async def models(call: ApiCall) -> Sequence[ModelInfo]:
    async with call.services as services:
        await services.catalog.ready()
        return services.catalog.models()


async def providers(call: ApiCall) -> Sequence[ProviderInfo]:
    async with call.services as services:
        await services.catalog.ready()
        return services.catalog.providers()


async def provider(call: ApiCall) -> ProviderInfo:
    id: str = call.params.provider_id
    async with call.services as services:
        await services.catalog.ready()
        found = services.catalog.provider(id)
    if found is None:
        raise ProviderNotFound(id)
    return found


async def commands(call: ApiCall) -> Sequence[CommandInfo]:
    async with call.services as services:
        await services.catalog.ready()
        return await services.commands.callable()


async def skills(call: ApiCall) -> Sequence[SkillInfo]:
    async with call.services as services:
        await services.catalog.ready()
        return await services.context.skills.list()


async def references(call: ApiCall) -> Sequence[ReferenceInfo]:
    async with call.services as services:
        await services.catalog.ready()
        return services.context.references.report()
