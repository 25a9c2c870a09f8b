"""Handlers of `protocol/audit.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.server.types import HistoryOf

if TYPE_CHECKING:
    from holdfast.protocol.audit import AuditQuery
    from holdfast.server.types import ApiCall

PAGE = 200


async def of_session(call: ApiCall) -> HistoryOf:
    assert call.session is not None
    query: AuditQuery = call.query
    after, limit = query.after or 0, query.limit or PAGE
    found = await call.runtime.session_audit.of_tree(call.session.id, after + limit + 1)
    return HistoryOf(found[after : after + limit], len(found) > after + limit)


async def of_server(call: ApiCall) -> HistoryOf:
    query: AuditQuery = call.query
    limit = query.limit or PAGE
    found = await call.runtime.audit_trail.page(after=query.after or 0, limit=limit + 1)
    return HistoryOf(found[:limit], len(found) > limit)
