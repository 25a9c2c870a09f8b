"""Answers the skill operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.skill.skill import Skill
    from holdfast.server.types import Call


async def list(call: Call) -> Sequence[Skill]:
    async with call.services as services:
        await services.catalog.ready()
        return await services.context.skills.list()
