"""Copies of a project: further working trees of its repository."""

from __future__ import annotations

from holdfast.protocol.endpoint import Endpoint, Envelope
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


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    map(
        at_location,
        (
            Endpoint(
                group="project_copies",
                name="create",
                operation="v2.projectCopy.create",
                method="POST",
                path="/experimental/project/{projectID}/copy",
                summary="Make a copy of the project below a directory; the strategy is `git_worktree`.",
                params=ProjectPath,
                payload=CopyPayload,
                envelope=Envelope.BARE,
                success=ProjectCopy,
                errors=(ProjectCopyError,),
            ),
            Endpoint(
                group="project_copies",
                name="remove",
                operation="v2.projectCopy.remove",
                method="DELETE",
                path="/experimental/project/{projectID}/copy",
                summary="Remove a copy; what is not committed in it needs `force`.",
                params=ProjectPath,
                payload=RemoveCopyPayload,
                envelope=Envelope.VOID,
                errors=(ProjectCopyError,),
            ),
            Endpoint(
                group="project_copies",
                name="refresh",
                operation="v2.projectCopy.refresh",
                method="POST",
                path="/experimental/project/{projectID}/copy/refresh",
                summary="Forget copies whose directories are gone.",
                params=ProjectPath,
                envelope=Envelope.VOID,
                errors=(ProjectCopyError,),
            ),
        ),
    )
)
