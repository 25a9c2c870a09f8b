"""Candidates for completions, from the server: files, references and agents for `@`, commands and skills for `/`.

What does not depend on the query is asked for once and kept for a while."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from holdfast.client.errors import ApiError, ClientError
from holdfast.tui.completion import MOST_OFFERED, Candidate, ranked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.location import Location
    from holdfast.tui.completion import Trigger

KEPT_SECONDS = 30.0


class Suggestions:
    def __init__(self, client: AsyncClient, location: Location, built_in: Iterable[Candidate]) -> None:
        self._client = client
        self._location = location
        self._built_in = tuple(built_in)
        self._names: tuple[float, list[Candidate]] = (0.0, [])
        self._commands: tuple[float, list[Candidate]] = (0.0, [])
        self.skills: frozenset[str] = frozenset()
        """Names that are called as a skill, as far as they are known."""

    async def for_trigger(self, wanted: Trigger) -> list[Candidate]:
        """Best first. Without an answer of the server, those that are known."""
        if wanted.kind == "command":
            return ranked(wanted.query, [*self._built_in, *await self._callable()])
        names, files = await asyncio.gather(self._mentionable(), self._files(wanted.query))
        return [*ranked(wanted.query, names), *files][:MOST_OFFERED]

    async def commands(self) -> list[Candidate]:
        return await self._callable()

    async def _files(self, query: str) -> list[Candidate]:
        try:
            found = (await self._client.files.find(query=query, location=self._location, limit=MOST_OFFERED)).data
        except (ApiError, ClientError):
            return []
        return [Candidate(entry.path, opens=entry.type == "directory") for entry in found]

    async def _mentionable(self) -> list[Candidate]:
        asked, known = self._names
        if time.monotonic() - asked < KEPT_SECONDS:
            return known
        try:
            agents = (await self._client.agents.list(location=self._location)).data
            references = (await self._client.references.list(location=self._location)).data
        except (ApiError, ClientError):
            return known
        known = [
            Candidate(agent.id, f"agent  {agent.description or ''}".rstrip())
            for agent in agents
            if agent.mode != "primary" and not agent.hidden
        ] + [
            Candidate(one.name, f"reference  {one.description or ''}".rstrip()) for one in references if not one.hidden
        ]
        self._names = (time.monotonic(), known)
        return known

    async def _callable(self) -> list[Candidate]:
        asked, known = self._commands
        if time.monotonic() - asked < KEPT_SECONDS:
            return known
        try:
            commands = (await self._client.commands.list(location=self._location)).data
            skills = (await self._client.skills.list(location=self._location)).data
        except (ApiError, ClientError):
            return known
        names = {command.name for command in commands}
        known = [Candidate(command.name, command.description or "command") for command in commands] + [
            Candidate(skill.name, skill.description or "skill") for skill in skills if skill.name not in names
        ]
        self._commands = (time.monotonic(), known)
        self.skills = frozenset(skill.name for skill in skills) - names
        return known
