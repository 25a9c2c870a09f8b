"""Isolation of subagents in one Location: the copies that its children work in, and what they changed there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from holdfast.core.project.directory import canonical_directory
from holdfast.core.session.task_work import TooManyTasks
from holdfast.core.snapshot.application import Applications
from holdfast.core.snapshot.errors import CopyFailed
from holdfast.core.tool.progress import report
from holdfast.core.tool.tool import ToolFailure
from holdfast.schema.location import Location

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.core.project.project import Project
    from holdfast.core.session.task_work import Work
    from holdfast.core.snapshot.copy_offer import CopyServices
    from holdfast.core.snapshot.copy_record import CopyRecord
    from holdfast.core.snapshot.snapshot import Snapshots
    from holdfast.schema.session import Session

UNABLE = "No isolated copy of the project can be made: {error}. Without `isolation` the subagent works in your files."
ONLY_NEW = "Subagent {id} works in your files. Isolation is chosen for a new subagent."
COPYING = "copying the project"
NOTE = (
    "You work in an isolated copy of the project, at {directory}. Change files there, not in the original. "
    "Your changes are handed over as a diff when you end; do not commit or push for that. Not in the copy: {missing}."
)
MADE_ANEW = "Your isolated copy was made anew from the files of the project as they are now."
RESTORED = (
    "Your isolated copy was made anew as you left it, with your changes that were not applied. What the project got "
    "since then is not in it."
)


class Isolation:
    """Of one Location."""

    def __init__(
        self,
        services: CopyServices,
        project: Project,
        snapshots: Snapshots,
        directory: Path,
        running: Callable[[str], Awaitable[int]],
    ) -> None:
        """`running` tells how many tasks of a tree are under way."""
        self.copies = services.copies
        self.sessions = services.sessions
        self.changes = services.offers.text
        self.root = project.directory
        self.applications = Applications(services.copies, snapshots, project.directory)
        self._project = project
        self._snapshots = snapshots
        self._directory = directory
        self._running = running
        self._one_at_a_time = asyncio.Lock()

    @property
    def possible(self) -> bool:
        """Whether the project is a repository."""
        return self._project.store is not None

    def wanted(self, isolation: Literal["worktree"] | None, child: Session | None) -> bool:
        """Whether a child works in a copy. A child that goes on keeps what was chosen for it."""
        return self._is_isolated(child.id) if child is not None else isolation is not None

    async def check(self, isolation: Literal["worktree"] | None, child: Session | None) -> None:
        """Raises ToolFailure if it cannot be had."""
        if isolation is None:
            return
        if child is not None and not self._is_isolated(child.id):
            raise ToolFailure(ONLY_NEW.format(id=child.id))
        try:
            await self.copies.check(self._project, self._snapshots)
        except CopyFailed as error:
            raise ToolFailure(UNABLE.format(error=error)) from error

    async def prepare(self, work: Work, child_id: str) -> Work:
        """Make the copy that the child works in, if there is none, and tell the child about it. Raises ToolFailure."""
        async with self._one_at_a_time:
            known = await self.sessions.exists(child_id)
            if known and (await self.sessions.use(child_id)).state == "working":
                return work  # the call is executed again, or the child is in its copy
            if await self._running(work.root_id) >= work.most:
                raise TooManyTasks(work.most)
            there = self.copies.is_there(child_id)
            report({"status": COPYING})
            record = await self._make(child_id)
        if not known:
            return _told(work, NOTE.format(directory=self.copies.directory(record), missing=record.not_copied)).replace(
                location=self._location(record)
            )
        return work if there else _told(work, RESTORED if record.offered else MADE_ANEW)

    async def abandon(self, child_id: str) -> None:
        """The task was not started after all."""
        if self._is_isolated(child_id) and (await self.sessions.use(child_id)).state == "unknown":
            await self.copies.discard(child_id)

    def _is_isolated(self, child_id: str) -> bool:
        return self.copies.folder.read(child_id) is not None

    async def _make(self, child_id: str) -> CopyRecord:
        try:
            record = await self.copies.make(child_id, self._project, self._snapshots)
            Path(self._location(record).directory).mkdir(parents=True, exist_ok=True)
        except (CopyFailed, OSError) as error:
            raise ToolFailure(UNABLE.format(error=error)) from error
        return record

    def _location(self, record: CopyRecord) -> Location:
        """The same place in the copy as this Location has in the project."""
        inside = self._directory.relative_to(self.root) if self._directory.is_relative_to(self.root) else Path()
        return Location(directory=canonical_directory(str(self.copies.directory(record) / inside)))


def _told(work: Work, note: str) -> Work:
    return work.replace(prompt=replace(work.prompt, notes=(*(work.prompt.notes or ()), note)))
