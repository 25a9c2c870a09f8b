"""Reads of budgets, of what Sessions used, and of Sessions that wait for a budget."""

from __future__ import annotations

from holdfast.core.session.budget_projector import BILLIONTHS, MILLISECONDS
from holdfast.core.session.stored_sessions import StoredSessions
from holdfast.schema.budget import Budget, BudgetInfo, LimitName, Spent, UsageInfo, UsageTotal
from holdfast.schema.frozen import Frozen
from holdfast.schema.session import CacheTokens, Tokens


class Pause(Frozen):
    """A budget refused the next request of a Session."""

    budget_id: str
    """The Session whose budget it is."""
    since: int


class StoredBudgets(StoredSessions):
    async def budgets(self, session_id: str) -> list[BudgetInfo]:
        """The budgets that hold for a Session: its own first, then those of its ancestors."""
        rows = await self._database.fetch("budget.of_chain", {"session_id": session_id}, into=BudgetRow)
        return [row.info() for row in rows]

    async def refusing_budget(self, session_id: str) -> str | None:
        """The Session, this one or an ancestor, whose budget has nothing left."""
        rows = await self._database.fetch("budget.refuses", {"session_id": session_id})
        return str(rows[0][0]) if rows else None

    async def pause(self, session_id: str) -> Pause | None:
        """Since when the Session waits for a budget, if it does."""
        rows = await self._database.fetch("pause.of", {"session_id": session_id}, into=Pause)
        return rows[0] if rows else None

    async def paused_by(self, budget_id: str) -> list[str]:
        """The Sessions that wait for this budget, longest first."""
        return [str(row[0]) for row in await self._database.fetch("pause.of_budget", {"budget_id": budget_id})]

    async def paused_with_room(self, session_id: str) -> list[str]:
        """The Sessions that wait for a budget which this one shares, and of which something is left."""
        return [str(row[0]) for row in await self._database.fetch("pause.with_room", {"session_id": session_id})]

    async def budget_revision(self) -> int:
        """Grows with each change of a budget; 0 if there was none."""
        return int(str((await self._database.fetch("budget.revision", {}))[0][0]))

    async def takes_default_budget(self, session_id: str) -> bool:
        """Whether the Session is a new root and nobody has set or removed a budget of it."""
        return bool(await self._database.fetch("budget.may_default", {"session_id": session_id}))

    async def usage(self, session_id: str) -> UsageInfo:
        """What a Session used by itself, and together with everything below it."""
        await self.get(session_id)
        key = {"session_id": session_id}
        (own,) = await self._database.fetch("usage.own", key, into=_UsageRow)
        (tree,) = await self._database.fetch_large("usage.tree", key, into=_UsageRow)
        return UsageInfo(own=own.total(), tree=tree.total())


class BudgetRow(Frozen):
    session_id: str
    limit_money: int | None
    limit_tokens: int | None
    limit_turns: int | None
    limit_time: int | None
    money: int
    tokens: int
    turns: int
    time: int
    reserved_money: int
    reserved_tokens: int
    reserved_turns: int

    def info(self) -> BudgetInfo:
        return BudgetInfo(
            session_id=self.session_id,
            limit=Budget(
                money=None if self.limit_money is None else self.limit_money / BILLIONTHS,
                tokens=self.limit_tokens,
                turns=self.limit_turns,
                time=None if self.limit_time is None else self.limit_time / MILLISECONDS,
            ),
            used=_spent(self.money, self.tokens, self.turns, self.time),
            reserved=_spent(self.reserved_money, self.reserved_tokens, self.reserved_turns, 0),
            reached=self._reached(),
        )

    def _reached(self) -> tuple[LimitName, ...]:
        limits: tuple[tuple[LimitName, int | None, int], ...] = (
            ("money", self.limit_money, self.money + self.reserved_money),
            ("tokens", self.limit_tokens, self.tokens + self.reserved_tokens),
            ("turns", self.limit_turns, self.turns + self.reserved_turns),
            ("time", self.limit_time, self.time),
        )
        return tuple(name for name, limit, taken in limits if limit is not None and taken >= limit)


class _UsageRow(Frozen):
    cost: float
    tokens_input: int
    tokens_output: int
    tokens_reasoning: int
    tokens_cache_read: int
    tokens_cache_write: int
    sessions: int
    turns: int
    time: int

    def total(self) -> UsageTotal:
        cache = CacheTokens(read=self.tokens_cache_read, write=self.tokens_cache_write)
        return UsageTotal(
            cost=self.cost,
            tokens=Tokens(
                input=self.tokens_input, output=self.tokens_output, reasoning=self.tokens_reasoning, cache=cache
            ),
            turns=self.turns,
            time=self.time / MILLISECONDS,
            sessions=self.sessions,
        )


def _spent(money: int, tokens: int, turns: int, time: int) -> Spent:
    return Spent(money=money / BILLIONTHS, tokens=tokens, turns=turns, time=time / MILLISECONDS)
