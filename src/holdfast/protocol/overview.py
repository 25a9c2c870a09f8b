"""Operations over all Sessions: what each does, which requests wait for a person, and the state of the server."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.schema.disk import DiskReport
from holdfast.schema.errors import ConflictError, InvalidCursorError
from holdfast.schema.overview import DoctorReport, OpenRequest, OverviewSession, SystemInfo
from holdfast.schema.record import Record
from holdfast.schema.session import Session


class OverviewQuery(Record):
    open: bool | None = None
    """Only Sessions that are not idle, with those that have a parent. Otherwise all Sessions without a parent."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] | None = None
    """100 by default; with `open` 500, which is the most."""
    cursor: str | None = None
    """Not with `open`, which has one page."""
    search: Annotated[str, msgspec.Meta(max_length=1000, pattern=r"^[^\x00]*$")] | None = None
    """Only Sessions with this text in their title or directory, whatever its case."""
    directory: str | None = None
    archived: bool | None = None
    """Only archived Sessions; without it, only others. With `open` and without it, both."""
    ids: Annotated[str, msgspec.Meta(max_length=20_000, pattern=r"^ses[^,]*(,ses[^,]*)*$")] | None = None
    """Only these Sessions, separated by commas, children and archived ones too. No other filter applies."""


class FindQuery(Record):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=1000, pattern=r"^[^\x00]*$")]
    """An id, the beginning of one (with or without `ses_`, at least four characters after it), or a title."""
    directory: str | None = None
    """Sessions here come before those of other directories."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    """20 by default."""


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    replace(endpoint, extension=True, handler=f"overview.{endpoint.name}")
    for endpoint in (
        endpoint(
            "sessions.overview",
            "GET /api/overview",
            "holdfast.overview",
            "A page of Sessions with what each does now, most recently changed first.",
            role="read",
            query=OverviewQuery,
            page=OverviewSession,
            errors=(InvalidCursorError,),
        ),
        endpoint(
            "sessions.find",
            "GET /api/lookup",
            "holdfast.session.find",
            "The Sessions that a person may mean: the one with this id, else those whose id begins like this, else "
            "those without a parent and with this title, else with this text in their title, whatever its case.",
            role="read",
            query=FindQuery,
            data=list[Session],
        ),
        endpoint(
            "sessions.open_requests",
            "GET /api/request",
            "holdfast.request.list",
            "Everything that waits for a person, of all Sessions and directories, oldest first: permissions, "
            "questions, forms, and turns whose process ended.",
            role="read",
            data=list[OpenRequest],
        ),
        endpoint(
            "system.info",
            "GET /api/system",
            "holdfast.system.get",
            "The processes on the database, what they execute and wait for, and the database itself.",
            role="read",
            data=SystemInfo,
        ),
        endpoint(
            "system.doctor",
            "POST /api/system/doctor",
            "holdfast.system.doctor",
            "Compare what clients see with the event log, and check the configuration. A caller that disconnects ends "
            "it. One at a time.",
            role="admin",
            data=DoctorReport,
            errors=(ConflictError,),
        ),
        endpoint(
            "system.disk",
            "GET /api/system/disk",
            "holdfast.system.disk",
            "What uses the disk, the largest Sessions, and what could be freed and how. Reads the sizes of all events.",
            role="admin",
            data=DiskReport,
        ),
    )
)
