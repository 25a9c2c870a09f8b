"""Copies of a project: additional working trees of its repository."""

from __future__ import annotations

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import at_location
from holdfast.schema.errors import ProjectCopyError
from holdfast.schema.record import Record


class ProjectPath(Record):
    project_id: str


class CopyPayload(Record):
    strategy: str
    directory: str
    name: str | None = None


class RemoveCopyPayload(Record):
    directory: str
    force: bool


class ProjectCopy(Record):
    directory: str


ENDPOINTS: tuple[Endpoint, ...] = at_location(
    endpoint(
        "project_copies.create",
        "POST /experimental/project/{projectID}/copy",
        "v2.projectCopy.create",
        "Create a copy of the project below a directory; the strategy is `git_worktree`.",
        role="admin",
        params=ProjectPath,
        payload=CopyPayload,
        bare=ProjectCopy,
        errors=(ProjectCopyError,),
    ),
    endpoint(
        "project_copies.remove",
        "DELETE /experimental/project/{projectID}/copy",
        "v2.projectCopy.remove",
        "Remove a copy. `force` is required if it has uncommitted changes.",
        role="admin",
        params=ProjectPath,
        payload=RemoveCopyPayload,
        errors=(ProjectCopyError,),
    ),
    endpoint(
        "project_copies.refresh",
        "POST /experimental/project/{projectID}/copy/refresh",
        "v2.projectCopy.refresh",
        "Forget copies whose directories no longer exist.",
        role="admin",
        params=ProjectPath,
        errors=(ProjectCopyError,),
    ),
)
