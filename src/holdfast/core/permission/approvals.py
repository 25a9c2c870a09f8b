"""Saved approvals: what a person allowed for good in a directory.

An approval holds for the directory and its owner, whatever project id a repository there claims to have."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Unit
from holdfast.core.permission.approval_key import NOBODY, approval_key
from holdfast.schema.frozen import Frozen
from holdfast.schema.permission import SavedApproval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.project.project import Project

log = logging.getLogger(__name__)


class SavedApprovals:
    def __init__(self, database: Database, ids: Ids, clock: Clock, project: Project) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._project = project

    async def here(self) -> tuple[SavedApproval, ...]:
        """The approvals that hold in the project's directory."""
        key = approval_key(self._project)
        if key.owner == NOBODY:
            return ()
        place: dict[str, Value] = {"root": key.root, "owner": key.owner}
        rows = await self._database.fetch("permission.of_directory", place, into=_ApprovalRow)
        if any(row.owner is None for row in rows):
            await self._database.submit(Unit(key.root, local=(Statement("permission.bind", place),)))
        return tuple(row.approval() for row in rows)

    async def of_project(self, project_id: str) -> tuple[SavedApproval, ...]:
        """All approvals that were given in directories of a project."""
        key = {"project_id": project_id}
        return tuple(await self._database.fetch("permission.of_project", key, into=SavedApproval))

    async def remove(self, id: str) -> None:
        """Takes effect with the next evaluation. An unknown id is not an error."""
        await self._database.submit(Unit(id, local=(Statement("permission.remove", {"id": id}),)))

    def saving(self, action: str, patterns: Sequence[str]) -> tuple[Sequence[Statement], Sequence[Statement]]:
        """The statements that save patterns: those before the events of the commit, and those after them."""
        if not patterns:
            return (), ()
        now, key = self._clock.now(), approval_key(self._project)
        if key.owner == NOBODY:
            log.warning("an approval holds only once: %s is not there any more", key.root)
            return (), ()
        # A project that got its identity after its Sessions were made may not be stored yet.
        project: dict[str, Value] = {
            "id": self._project.id,
            "worktree": str(self._project.listed_directory),
            "vcs": "git" if self._project.store else None,
            "time_created": now,
        }
        approvals: list[dict[str, Value]] = [
            {
                "id": self._ids.of("psv"),
                "project_id": self._project.id,
                "root": key.root,
                "owner": key.owner,
                "action": action,
                "resource": pattern,
                "timestamp": now,
            }
            for pattern in patterns
        ]
        return [Statement("project.ensure", project)], [Statement("permission.save", row) for row in approvals]


class _ApprovalRow(Frozen):
    id: str
    project_id: str
    action: str
    resource: str
    owner: int | None

    def approval(self) -> SavedApproval:
        return SavedApproval(id=self.id, project_id=self.project_id, action=self.action, resource=self.resource)
