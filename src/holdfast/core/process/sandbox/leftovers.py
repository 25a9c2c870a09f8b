"""What a confined command leaves behind for programs that its user runs outside: found before and after the command,
compared, and disabled.

The paths that a confinement protects cannot change. This module is for what it cannot protect: repositories that a
command makes or leads elsewhere, and files that did not exist before."""

from __future__ import annotations

import asyncio
import os
import time
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakSet

from holdfast.core.process.sandbox.git_settings import GitReader
from holdfast.core.process.sandbox.repositories import MARKER, RepositorySearch, disable, set_aside
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from holdfast.core.process.sandbox.confinement import Confinement
    from holdfast.core.process.sandbox.repositories import Programs, Repository, Survey

CLOCK_NANOSECONDS = 2_000_000_000
"""How far the clock of a file system may be behind."""
NOTHING: Programs = frozenset()
MOST_PROTECTED = 16
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


class Baseline(Frozen, eq=False, weakref=True):
    """What is compared with what a command leaves behind."""

    writable: tuple[Path, ...]
    absent: frozenset[Path]
    programs: Mapping[Repository, Programs]
    hooks: tuple[str, ...]
    complete: bool
    taken: int
    """The time, in nanoseconds."""

    def without(self, running: Baseline) -> Baseline:
        """What was there before the other command, too, if that could make it."""
        programs = {
            repository: found & running.programs.get(repository, NOTHING)
            if running.could_write(repository.marker)
            else found
            for repository, found in self.programs.items()
        }
        return self.replace(programs=programs, absent=self.absent | running.absent)

    def could_write(self, path: Path) -> bool:
        return any(root == path or root in path.parents for root in self.writable)


_RUNNING: WeakSet[Baseline] = WeakSet()
"""Of all commands of this process that have not been settled."""
_GUARD = Lock()


class Leftovers:
    """For one Location. Remembers what it has read, so that looking again is fast."""

    def __init__(self, root: Path | None, directory: Path, environment: Mapping[str, str]) -> None:
        self._own = None if root is None else root / MARKER
        self._git = GitReader(root, directory, environment)
        self._search = RepositorySearch()

    async def take(self, writable: Sequence[Path]) -> Inventory:
        """For the confinement of a command."""
        settings = await self._git.settings()
        survey = await self._survey(writable, settings.hooks)
        nested = tuple(repository for repository in survey.programs if repository.marker != self._own)
        problem = "; ".join(filter(None, (settings.problem, "" if survey.complete else INCOMPLETE)))
        return Inventory(survey, settings.hooks, settings.included, nested[:MOST_PROTECTED], problem)

    def begin(self, confinement: Confinement, inventory: Inventory) -> Baseline:
        """Call it right before the command starts. What another command made that still runs is not taken for the
        user's: that command will be settled, and this one could undo it."""
        survey = inventory.survey
        baseline = Baseline(
            writable=confinement.writable,
            absent=frozenset(confinement.absent),
            programs=survey.programs,
            hooks=inventory.hooks,
            complete=survey.complete,
            taken=time.time_ns() - CLOCK_NANOSECONDS,
        )
        with _GUARD:
            for running in list(_RUNNING):
                baseline = baseline.without(running)
            _RUNNING.add(baseline)
        return baseline

    async def settle(self, before: Baseline) -> tuple[str, ...]:
        """Disable what was added since; returns a line about each."""
        try:
            survey = await self._survey(before.writable, before.hooks)
            return await asyncio.to_thread(self._disable, before, survey)
        finally:
            with _GUARD:
                _RUNNING.discard(before)

    async def _survey(self, writable: Sequence[Path], hooks: Sequence[str]) -> Survey:
        survey = await asyncio.to_thread(self._search.survey, writable, hooks)
        if not survey.complete:
            links = await self._git.gitlinks()
            survey = await asyncio.to_thread(self._search.survey, writable, hooks, links)
        return survey

    def _disable(self, before: Baseline, survey: Survey) -> tuple[str, ...]:
        lines = []
        for path in sorted(before.absent):
            if os.path.lexists(path):
                new = set_aside(path, before.writable)
                lines.append((NOT_SET_ASIDE if new is None else SET_ASIDE).format(path=path, new=new))
        for repository, programs in survey.added(before.programs):
            # What git executes in the project's own repository is protected while a command runs, if there is one.
            if repository.marker == self._own and repository in before.programs:
                continue
            # An earlier search may not have reached it.
            if not before.complete and repository not in before.programs and not repository.changed_since(before.taken):
                continue
            new = disable(repository, before.writable)
            text = NOT_DISABLED if new is None else DISABLED
            lines.append(text.format(programs=", ".join(programs), path=repository.marker, new=new))
        return tuple(lines)
