"""What a confined command leaves behind for programs that its user runs outside: found before and after the command,
compared, and disabled.

The paths that a confinement protects cannot change. This module is for what it cannot protect: repositories that a
command makes or leads elsewhere, and files that did not exist before."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from holdfast.core.process.sandbox.git_settings import GitReader
from holdfast.core.process.sandbox.repositories import MARKER, RepositorySearch, disable, set_aside
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from holdfast.core.process.sandbox.confinement import Confinement
    from holdfast.core.process.sandbox.repositories import Repository, Survey

MOST_PROTECTED = 48
"""Nested repositories that are protected while a command runs. Each takes several mounts; of the others it is only
examined what a command left."""
DISABLED = "Disabled, because git would run programs that this command chose ({programs}): {path} is now {new}"
NOT_DISABLED = "WARNING: git would run programs that this command chose ({programs}) in {path}, which cannot be renamed"
SET_ASIDE = (
    "Set aside, because programs outside the sandbox would execute it or read settings from it: {path} is now {new}"
)
NOT_SET_ASIDE = (
    "WARNING: programs outside the sandbox execute {path}, which this command made and which cannot be renamed"
)
INCOMPLETE = (
    "the project is too large to examine all its directories, or some cannot be read: what a command leaves in the "
    "others for git to run is not found"
)


class Inventory(Frozen):
    """The repositories in writable directories at one moment, and the user's settings for all repositories."""

    survey: Survey
    hooks: tuple[str, ...]
    included: tuple[Path, ...]
    nested: tuple[Repository, ...]
    problem: str


class Leftovers:
    """For one Location. Remembers what it has read, so that looking again is fast."""

    def __init__(self, root: Path | None, directory: Path, environment: Mapping[str, str]) -> None:
        self._own = None if root is None else root / MARKER
        self._git = GitReader(root, directory, environment)
        self._search = RepositorySearch()

    async def take(self, writable: Sequence[Path]) -> Inventory:
        settings = await self._git.settings()
        survey = await self._survey(writable, settings.hooks)
        nested = tuple(repository for repository in survey.programs if repository.marker != self._own)
        problem = "; ".join(filter(None, (settings.problem, "" if survey.complete else INCOMPLETE)))
        return Inventory(survey, settings.hooks, settings.included, nested[:MOST_PROTECTED], problem)

    async def settle(self, confinement: Confinement, before: Inventory) -> tuple[str, ...]:
        """Disable what was added since; returns a line about each."""
        survey = await self._survey(confinement.writable, before.hooks)
        return await asyncio.to_thread(self._disable, confinement, before, survey)

    async def _survey(self, writable: Sequence[Path], hooks: Sequence[str]) -> Survey:
        survey = await asyncio.to_thread(self._search.survey, writable, hooks)
        if not survey.complete:
            links = await self._git.gitlinks()
            survey = await asyncio.to_thread(self._search.survey, writable, hooks, links)
        return survey

    def _disable(self, confinement: Confinement, before: Inventory, survey: Survey) -> tuple[str, ...]:
        lines = []
        for path in confinement.absent:
            if os.path.lexists(path):
                new = set_aside(path, confinement.writable)
                lines.append((NOT_SET_ASIDE if new is None else SET_ASIDE).format(path=path, new=new))
        for repository, programs in survey.added(before.survey):
            # What git executes in the project's own repository is protected while a command runs, if there is one.
            if repository.marker == self._own and repository in before.survey.programs:
                continue
            new = disable(repository, confinement.writable)
            text = NOT_DISABLED if new is None else DISABLED
            lines.append(text.format(programs=", ".join(programs), path=repository.marker, new=new))
        return tuple(lines)
