"""Handlers of `protocol/inspection.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.server.project_reach import ASK_INSTEAD, check_worktree
from holdfast.server.types import HistoryOf

if TYPE_CHECKING:
    from holdfast.protocol import inspection as protocol
    from holdfast.schema.ledger import Window
    from holdfast.schema.past import Changes, LogEntry, PastSession
    from holdfast.schema.timeline import Timeline
    from holdfast.server.types import ApiCall

LEDGER = 200
SPANS = 1_000
LOG = 100
MESSAGES = 200


async def ledger(call: ApiCall) -> HistoryOf:
    query: protocol.LedgerQuery = call.query
    assert call.session is not None
    found = await call.runtime.inspection.ledger(call.session, limit=query.limit or LEDGER, before=query.before)
    return HistoryOf([*found.entries], found.more)


async def window(call: ApiCall) -> Window | None:
    assert call.session is not None
    return await call.runtime.inspection.window(call.session, seq=call.query.seq)


async def timeline(call: ApiCall) -> Timeline:
    query: protocol.TimelineQuery = call.query
    assert call.session is not None
    return await call.runtime.inspection.timeline(call.session, limit=query.limit or SPANS, before=query.before)


async def log(call: ApiCall) -> HistoryOf:
    query: protocol.LogQuery = call.query
    page = await call.runtime.inspection.log(
        call.params.session_id,
        limit=query.limit or LOG,
        after=query.after,
        before=query.before,
        types=query.types,
        search=query.search,
    )
    return HistoryOf([*page.entries], page.more)


async def log_entry(call: ApiCall) -> LogEntry:
    return await call.runtime.inspection.log_entry(call.params.session_id, call.params.seq)


async def past(call: ApiCall) -> PastSession:
    params: protocol.LogPath = call.params
    looking = call.runtime.inspection.past(params.session_id, params.seq, call.query.limit or MESSAGES)
    return await call.while_connected(looking)


async def changes(call: ApiCall) -> Changes:
    assert call.session is not None
    await check_worktree(call, call.session, ASK_INSTEAD)
    return await call.runtime.inspection.changes(call.session)
