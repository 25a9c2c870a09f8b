"""Isolation of subagents in one Location: the copies that its children work in, and what is done with their changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.project.directory import canonical_directory
from holdfast.core.snapshot.application import Applications
from holdfast.core.snapshot.errors import CopyFailed
from holdfast.core.tool.progress import report
from holdfast.core.tool.tool import ToolFailure
from holdfast.schema.location import Location

if TYPE_CHECKING:
    from holdfast.core.project.project import Project
    from holdfast.core.snapshot.copy_sessions import CopySessions
    from holdfast.core.snapshot.isolated_copies import IsolatedCopies
    from holdfast.core.snapshot.snapshot import Snapshots
    from holdfast.schema.session import Session

UNABLE = "No isolated copy of the project can be made: {error}. Without `isolation` the subagent works in your files."
ONLY_NEW = "Subagent {id} works in your files. Isolation is chosen for a new subagent."
NOTE = (
    "You work in an isolated copy of the project, at {directory}. Change files there, not in the original. "
    "Your changes are handed over as a diff when you end; do not commit or push for that. Not in the copy: {missing}."
)


class Isolation:
    """Of one Location."""

    def __init__(
        self, copies: IsolatedCopies, sessions: CopySessions, project: Project, snapshots: Snapshots, directory: Path
    ) -> None:
        self.copies = copies
        self.sessions = sessions
        self.root = project.directory
        self.applications = Applications(copies, snapshots, project.directory)
        self._project = project
        self._snapshots = snapshots
        self._directory = directory

    @property
    def possible(self) -> bool:
        """Whether the project is a repository at all."""
        return self._project.store is not None

    def isolated(self, child: Session) -> bool:
        return self.copies.folder.read(child.id) is not None

    async def place(self, child_id: str) -> Location:
        """Where this child works: its copy is made if there is none. Raises ToolFailure."""
        report({"sessionID": child_id, "status": "copying the project"})
        try:
            record = await self.copies.make(child_id, self._project, self._snapshots)
            inside = self._directory.relative_to(self.root) if self._directory.is_relative_to(self.root) else Path()
            directory = self.copies.directory(record) / inside
            directory.mkdir(parents=True, exist_ok=True)
        except (CopyFailed, OSError) as error:
            raise ToolFailure(UNABLE.format(error=error)) from error
        return Location(directory=canonical_directory(str(directory)))

    def note(self, child_id: str) -> str:
        """What the child is told about its copy."""
        record = self.copies.folder.read(child_id)
        directory = self.copies.folder.directory(child_id)
        return NOTE.format(directory=directory, missing=record.not_copied if record is not None else "")
