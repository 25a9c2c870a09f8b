"""Copies of a project. This server makes none yet, and says so."""

from __future__ import annotations

from holdfast.protocol.endpoint import Endpoint, Envelope
from holdfast.protocol.scope import at_location
from holdfast.schema.errors import ProjectCopyError, ServiceUnavailableError
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
                summary="Copy a project to another directory.",
                params=ProjectPath,
                payload=CopyPayload,
                envelope=Envelope.BARE,
                success=ProjectCopy,
                errors=(ProjectCopyError, ServiceUnavailableError),
            ),
            Endpoint(
                group="project_copies",
                name="remove",
                operation="v2.projectCopy.remove",
                method="DELETE",
                path="/experimental/project/{projectID}/copy",
                summary="Remove a copy.",
                params=ProjectPath,
                payload=RemoveCopyPayload,
                envelope=Envelope.VOID,
                errors=(ProjectCopyError, ServiceUnavailableError),
            ),
            Endpoint(
                group="project_copies",
                name="refresh",
                operation="v2.projectCopy.refresh",
                method="POST",
                path="/experimental/project/{projectID}/copy/refresh",
                summary="Look again which copies there are.",
                params=ProjectPath,
                envelope=Envelope.VOID,
                errors=(ProjectCopyError, ServiceUnavailableError),
            ),
        ),
    )
)
