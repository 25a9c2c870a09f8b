"""Handlers of `protocol/overview.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.project.directory import canonical_directory
from holdfast.core.runtime.overview import MOST_OPEN, OverviewFilter
from holdfast.core.session.errors import InvalidCursor
from holdfast.core.session.stored_sessions import SessionAnchor
from holdfast.server.cursor import OverviewCursor, read_cursor, write_cursor
from holdfast.server.types import ApiCall, PageOf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.session.stored_sessions import Direction
    from holdfast.protocol import overview as protocol
    from holdfast.schema.disk import DiskReport
    from holdfast.schema.overview import DoctorReport, OpenRequest, OverviewSession, SystemInfo
    from holdfast.schema.session import Session

PAGE = 100
FOUND = 20


async def overview(call: ApiCall) -> PageOf:
    query: protocol.OverviewQuery = call.query
    if query.ids is not None:
        if query.cursor is not None:
            raise InvalidCursor
        return PageOf([*await call.runtime.overview.of(query.ids.split(","))], None, None)
    if query.open:
        if query.cursor is not None:
            raise InvalidCursor
        told = await call.runtime.overview.open(_filter(query), limit=query.limit or MOST_OPEN)
        return PageOf([*told], None, None)
    cursor = read_cursor(OverviewCursor, query.cursor) if query.cursor is not None else None
    chosen = cursor.chosen if cursor is not None else _filter(query)
    limit = query.limit or (cursor.limit if cursor is not None else None) or PAGE
    anchor = cursor.anchor if cursor is not None else None
    found = await call.runtime.overview.page(chosen, limit=limit, anchor=anchor)
    if not found:
        return PageOf([], None, None)

    def link(told: OverviewSession, direction: Direction) -> str:
        anchor = SessionAnchor(id=told.session.id, time=told.session.time.updated, direction=direction)
        return write_cursor(OverviewCursor(anchor=anchor, chosen=chosen, limit=limit))

    return PageOf([*found], link(found[0], "previous"), link(found[-1], "next"))


async def find(call: ApiCall) -> Sequence[Session]:
    query: protocol.FindQuery = call.query
    directory = canonical_directory(query.directory) if query.directory else None
    return await call.runtime.session_search.find(query.name, directory, query.limit or FOUND)


async def open_requests(call: ApiCall) -> Sequence[OpenRequest]:
    return await call.runtime.open_requests.list()


async def info(call: ApiCall) -> SystemInfo:
    return await call.runtime.system.info()


async def doctor(call: ApiCall) -> DoctorReport:
    return await call.while_connected(call.runtime.doctor.examine())


async def disk(call: ApiCall) -> DiskReport:
    return await call.while_connected(call.runtime.disk_uses.report())


def _filter(query: protocol.OverviewQuery) -> OverviewFilter:
    directory = canonical_directory(query.directory) if query.directory else None
    return OverviewFilter(search=query.search, directory=directory, archived=query.archived)
