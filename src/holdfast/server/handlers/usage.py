"""Handlers of `protocol/usage.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.inspect.usage import UsageFilter
from holdfast.core.project.directory import canonical_directory

if TYPE_CHECKING:
    from holdfast.protocol import usage as protocol
    from holdfast.schema.usage import UsageReport
    from holdfast.server.types import ApiCall


async def usage(call: ApiCall) -> UsageReport:
    query: protocol.UsageQuery = call.query
    chosen = UsageFilter(
        directory=canonical_directory(query.directory) if query.directory else None,
        project=query.project,
        session=query.session,
    )
    by = frozenset(query.by.split(",")) if query.by else frozenset()
    return await call.while_connected(
        call.runtime.usage.report(by, chosen, since=query.since, until=query.until, offset=query.offset or 0)
    )
