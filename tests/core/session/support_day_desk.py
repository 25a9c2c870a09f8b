"""A desk at which a person answers what a Session's tools ask, and a provider whose own tools have answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.core.session.support_day import calling, play

from holdfast.core.event.bus import Announcement
from holdfast.core.location.services import LocationServices
from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.codec import decode_any
from holdfast.schema.permission import PermissionRequest, Reply
from holdfast.schema.prompt import Prompt

PROMPTLY = 10.0


class Desk:
    """Requests in the order in which observers hear of them."""

    def __init__(self, services: LocationServices) -> None:
        self.services = services
        self.heard: list[dict[str, Any]] = []
        self.replies: list[dict[str, Any]] = []
        self._grew = asyncio.Event()

    async def asked(self, count: int = 1) -> list[PermissionRequest]:
        """Once that many were asked in all: those that still wait."""
        async with asyncio.timeout(PROMPTLY):
            while len(self.heard) < count:
                self._grew.clear()
                await self._grew.wait()
        return list(await self.services.permissions.list())

    async def answer(self, request: PermissionRequest, reply: Reply, **more: Any) -> None:
        await self.services.permissions.reply(request.session_id, request.id, reply, **more)

    def hear(self, announcement: Announcement) -> None:
        if announcement.type == "permission.v2.asked":
            self.heard.append(decode_any(announcement.wire)["data"])
            self._grew.set()
        elif announcement.type == "permission.v2.replied":
            self.replies.append(decode_any(announcement.wire)["data"])


@asynccontextmanager
async def desk_of(runtime: Runtime) -> AsyncIterator[Desk]:
    async with runtime.locations.use(runtime.location) as services:
        desk = Desk(services)
        stop = runtime.log.bus.listen(desk.hear)
        try:
            yield desk
        finally:
            stop()


async def call(runtime: Runtime, model: ScriptedTransport, session_id: str, *calls: tuple[str, dict[str, Any]]) -> None:
    """The model makes these calls in its next turn; returns at once."""
    play(model, calling(*calls))
    await runtime.sessions.prompt(session_id, Prompt(text="go"))


def rule(text: str) -> dict[str, str]:
    """`ask bash git *`, as configuration spells it."""
    return dict(zip(("effect", "action", "resource"), text.split(" ", 2), strict=True))


def rules(*texts: str) -> list[dict[str, str]]:
    return [rule(text) for text in texts]
