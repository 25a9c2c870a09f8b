"""Answers the agent operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.catalog.public import public
from holdfast.schema.catalog import NativeApi, ProviderInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.agent import Agent
    from holdfast.server.types import Call


async def list(call: Call) -> Sequence[Agent]:
    async with call.services as services:
        await services.catalog.ready()
        return [_without_secrets(agent) for agent in services.agents.list()]


def _without_secrets(agent: Agent) -> Agent:
    """What an agent sends along is judged like what its provider does."""
    sender = ProviderInfo(id=agent.id, name=agent.id, api=NativeApi(settings={}), request=agent.request)
    return replace(agent, request=public(sender).request)
