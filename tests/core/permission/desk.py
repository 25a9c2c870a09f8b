"""The permissions of one Location in the hands of a test: its rules, and an ear for what is announced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.conftest import ManualClock
from tests.core.event.samples import SES
from tests.stores.stores import OpenedDatabase

from holdfast.core.clock import Ids
from holdfast.core.event.bus import Announcement
from holdfast.core.event.log import EventLog
from holdfast.core.permission.authority import Authorities
from holdfast.core.permission.permission import Permissions, Unattended, Wish
from holdfast.core.permission.requests import RequestServices
from holdfast.core.permission.rules import Authority
from holdfast.core.project.project import Project
from holdfast.core.session.ancestors import Ancestors
from holdfast.schema.codec import decode_any
from holdfast.schema.location import Location
from holdfast.schema.permission import Effect, PermissionRequest, Rule

HERE = Location(directory="/w/here")
PROJECT = "prj_1"
ASK = "permission.v2.asked"
REPLIED = "permission.v2.replied"
T = TypeVar("T")


def rule(effect: Effect, action: str = "*", resource: str = "*") -> Rule:
    return Rule(action=action, resource=resource, effect=effect)


def project_at(directory: Path, id: str) -> Project:
    """A project with a repository, for as much of it as approvals look at."""
    (directory / ".git").mkdir(parents=True, exist_ok=True)
    return Project(id, directory, directory / ".git")


class Heard(NamedTuple):
    type: str
    data: dict[str, Any]


class Ear:
    """Live events of some types, in order."""

    def __init__(self, log: EventLog, *types: str) -> None:
        self._types = types
        self.heard: list[Heard] = []
        self._grew = asyncio.Event()
        self.stop = log.bus.listen(self._hear)

    def _hear(self, announcement: Announcement) -> None:
        if announcement.type in self._types:
            self.heard.append(Heard(announcement.type, decode_any(announcement.wire)["data"]))
            self._grew.set()

    async def count(self, type: str, number: int) -> list[dict[str, Any]]:
        """Wait until that many of this type have been heard; all of them."""
        async with asyncio.timeout(10):
            while len(found := [item.data for item in self.heard if item.type == type]) < number:
                self._grew.clear()
                await self._grew.wait()
        return found


class Desk:
    def __init__(
        self,
        log: EventLog,
        database: OpenedDatabase,
        ids: Ids,
        clock: ManualClock,
        *,
        location: Location = HERE,
        project: str = PROJECT,
        unattended: Unattended = "wait",
    ) -> None:
        self.rules: dict[str, list[Rule]] = {"build": []}
        self.log = log
        self.database = database
        self.ear = Ear(log, ASK, REPLIED)
        self.permissions = Permissions(
            RequestServices(log, database, ids, clock, location, unattended),
            project_at(Path(str(database.path)).parent / project, project),
            Authorities(location, Ancestors(database, log.signals), self._authority, self._elsewhere),
        )
        self._waiting: list[asyncio.Task[None]] = []

    def _authority(self, agent: str | None) -> Authority | None:
        rules = self.rules.get(agent or "build")
        return Authority(tuple(rules)) if rules is not None else None

    async def _elsewhere(self, location: Location, agent: str | None) -> Authority | None:
        rules = self.rules.get(f"{location.directory} {agent or 'build'}")
        return Authority(tuple(rules)) if rules is not None else None

    async def wait(self, wish: Wish) -> tuple[asyncio.Task[None], PermissionRequest]:
        """A call that waits for a person, and the request that it made."""
        number = len([item for item in self.ear.heard if item.type == ASK])
        task = asyncio.create_task(self.permissions.assert_allowed(wish))
        self._waiting.append(task)
        asked = await self.ear.count(ASK, number + 1)
        return task, await self.permissions.get(wish.session_id, asked[-1]["id"])

    async def close(self) -> None:
        await soon(self.permissions.close())
        await asyncio.gather(*self._waiting, return_exceptions=True)
        self.ear.stop()


def want(action: str = "edit", *resources: str, session: str = SES, agent: str = "build", **more: Any) -> Wish:
    return Wish(session, agent, action, resources or ("a.txt",), **more)


async def soon(work: Awaitable[T]) -> T:
    """What must not hang."""
    async with asyncio.timeout(10):
        return await work
