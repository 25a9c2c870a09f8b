"""Answers the agent operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.catalog.public import public_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.agent import Agent
    from holdfast.server.types import Call


async def list(call: Call) -> Sequence[Agent]:
    async with call.services as services:
        await services.catalog.ready()
        secrets = services.config.current.secrets
        return [replace(agent, request=public_request(agent.request, secrets)) for agent in services.agents.list()]
