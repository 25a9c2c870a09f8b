"""What requests to models used in a period, from the events that ended them.

The store finds these events by time and adds them up. The cost of a report depends on the requests in its period, not
on what is stored besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.inspect.errors import InvalidPeriod, TooManyUsageRows, UnknownUsageSession
from holdfast.schema.frozen import Frozen
from holdfast.schema.model import ModelRef
from holdfast.schema.session import CacheTokens, Tokens
from holdfast.schema.usage import UsageProject, UsageReport, UsageRow, UsageSession, UsageSum

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Reads
    from holdfast.core.database.unit import Value
    from holdfast.core.session.stored_sessions import StoredSessions

DAY = 24 * 60 * 60 * 1000
DEFAULT_PERIOD = 30 * DAY
MOST_ROWS = 20_000


class UsageFilter(Frozen):
    """Each applies to the root of a tree, except `session`: that one and everything below it."""

    directory: str | None = None
    project: str | None = None
    session: str | None = None


class Usage:
    def __init__(self, database: Reads, sessions: StoredSessions, clock: Clock) -> None:
        self._database = database
        self._sessions = sessions
        self._clock = clock

    async def report(
        self,
        by: Collection[str],
        chosen: UsageFilter,
        *,
        since: int | None = None,
        until: int | None = None,
        offset: int = 0,
    ) -> UsageReport:
        """Milliseconds since the epoch; `offset` is in minutes. The last 30 days by default."""
        end = self._clock.now() + 1 if until is None else until
        begin = max(0, end - DEFAULT_PERIOD) if since is None else since
        if begin > end:
            raise InvalidPeriod(begin, end)
        if chosen.session is not None and await self._sessions.find(chosen.session) is None:
            raise UnknownUsageSession(chosen.session)
        key: dict[str, Value] = {
            "since": begin,
            "until": end,
            "offset": offset * 60 * 1000,
            "by_day": "day" in by,
            "by_project": "project" in by,
            "by_model": "model" in by,
            "by_session": "session" in by,
            "directory": chosen.directory,
            "project": chosen.project,
            "session_id": chosen.session,
            "limit": MOST_ROWS + 1,
        }
        rows = await self._database.fetch_large("usage.sums", key, into=_Row)
        if len(rows) > MOST_ROWS:
            raise TooManyUsageRows(MOST_ROWS)
        return UsageReport(
            since=begin, until=end, rows=tuple(row.told() for row in rows) if by else (), total=_total(rows)
        )


class _Row(Frozen):
    day: str | None
    provider_id: str | None
    model_id: str | None
    project_id: str | None
    worktree: str | None
    session_id: str | None
    title: str | None
    requests: int
    input: int
    output: int
    reasoning: int
    cache_read: int
    cache_write: int
    cost: float
    saved: float
    unpriced: int

    @property
    def tokens(self) -> Tokens:
        cache = CacheTokens(read=self.cache_read, write=self.cache_write)
        return Tokens(input=self.input, output=self.output, reasoning=self.reasoning, cache=cache)

    def told(self) -> UsageRow:
        known = self.model_id is not None and self.provider_id is not None
        return UsageRow(
            requests=self.requests,
            tokens=self.tokens,
            cost=self.cost,
            saved=self.saved,
            unpriced=self.unpriced,
            day=self.day,
            project=UsageProject(id=self.project_id, directory=self.worktree or "") if self.project_id else None,
            model=ModelRef(id=self.model_id or "", provider_id=self.provider_id or "") if known else None,
            session=UsageSession(id=self.session_id, title=self.title or "") if self.session_id else None,
        )


def _total(rows: Sequence[_Row]) -> UsageSum:
    return UsageSum(
        requests=sum(row.requests for row in rows),
        tokens=Tokens(
            input=sum(row.input for row in rows),
            output=sum(row.output for row in rows),
            reasoning=sum(row.reasoning for row in rows),
            cache=CacheTokens(read=sum(row.cache_read for row in rows), write=sum(row.cache_write for row in rows)),
        ),
        cost=sum(row.cost for row in rows),
        saved=sum(row.saved for row in rows),
        unpriced=sum(row.unpriced for row in rows),
    )
