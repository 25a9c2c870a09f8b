"""Budgets of Sessions: set and removed as events, counted beside them, and noticed by whoever waits.

Invariants
- What a Session has used is counted in each budget of its chain once: the statements add what its share lacks, so that
  they may run again, in any process and after any crash.
- A Session that a budget refused waits in the database. It goes on in the process that paused it, in one that changes
  the budget, or in one that starts.
- Without any budget in the database nothing is read or written for them but the revision, once a drain."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Statement, Value
from holdfast.core.run_to_completion import run_to_completion
from holdfast.core.session.errors import BudgetReached
from holdfast.core.session.records import existing
from holdfast.schema.budget import NO_LIMITS
from holdfast.schema.budget_event import BudgetSet
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.insight import WaitInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.clock import Clock
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.store import SessionStore
    from holdfast.core.session.stored_budgets import Pause
    from holdfast.core.session.wakeups import Wakeups
    from holdfast.schema.budget import Budget, BudgetInfo, LimitName

EMPTY = "a budget has at least one of money, tokens, turns and time; DELETE removes it"
ENDS = "it is raised or removed, or the session is interrupted"

log = logging.getLogger(__name__)


class Budgets:
    """One per process."""

    def __init__(
        self, events: EventLog, store: SessionStore, wakeups: Wakeups, clock: Clock, *, goes_on: bool = True
    ) -> None:
        """`goes_on` is whether Sessions that other processes paused go on in this one when it changes their budget."""
        self._log = events
        self._store = store
        self._wakeups = wakeups
        self._clock = clock
        self._goes_on = goes_on
        self._drains = 0
        self._paused: set[str] = set()
        """Sessions that this process paused."""
        self._watching = ExitStack()
        self._watches = False
        self._looking: asyncio.Task[None] | None = None
        self._freeing: set[asyncio.Task[None]] = set()
        self.revision = 0
        """Of all budgets, as this process knows it; 0 means that there never was one."""

    async def set(self, session_id: str, budget: Budget) -> BudgetInfo:
        """Set the budget of a Session in place of the one it had, and let go on what waits for it."""
        check_budget(budget)
        await run_to_completion(self._publish(session_id, budget))
        return (await self._store.budgets(session_id))[0]

    async def remove(self, session_id: str) -> None:
        """Remove the budget of a Session, and let go on what waits for it. Without a budget nothing changes."""
        await self._store.get(session_id)
        if any(info.session_id == session_id for info in await self._store.budgets(session_id)):
            await run_to_completion(self._publish(session_id, None))

    async def of(self, session_id: str) -> list[BudgetInfo]:
        await self._store.get(session_id)
        return await self._store.budgets(session_id)

    async def check(self, session_id: str) -> None:
        """Raise BudgetReached if a budget of the Session or an ancestor has nothing left."""
        if (budget_id := await self._store.refusing_budget(session_id)) is not None:
            raise await self.reached(session_id, budget_id)

    async def reached(self, session_id: str, budget_id: str | None = None) -> BudgetReached:
        """The exception that says which budget has nothing left."""
        infos = await self._store.budgets(session_id)
        info = next((info for info in infos if info.session_id == budget_id or (not budget_id and info.reached)), None)
        if info is None:
            return BudgetReached(session_id, budget_id or session_id, "nothing is left")
        return BudgetReached(session_id, info.session_id, described(info))

    async def settlement(self, session_id: str) -> tuple[Statement, ...]:
        """The statements that count what a request of the runtime itself used; none without a budget."""
        if not await self._store.budgets(session_id):
            return ()
        return (Statement("budget.join", {"session_id": session_id}), *settle(session_id))

    async def refresh(self) -> int:
        """The revision of all budgets, read from the database."""
        self.revision = await self._store.budget_revision()
        return self.revision

    def learn(self, revision: int) -> None:
        """Take over the revision of all budgets as it was read, perhaps some time ago."""
        self.revision = max(self.revision, revision)

    async def changed(self, session_id: str) -> None:
        """The budget of this Session is another one now."""
        await self.refresh()
        others = await self._store.paused_by(session_id) if self._goes_on else ()
        self._wake({*self._paused, *others})

    async def freed(self, session_id: str) -> None:
        """This Session reserves less than before: wake what may have waited for that."""
        self._wake(await self._store.paused_with_room(session_id))

    def freed_soon(self, session_id: str) -> None:
        """As `freed`, without waiting for the read."""
        task = asyncio.get_running_loop().create_task(self._free(session_id), name="holdfast-freed")
        self._freeing.add(task)
        task.add_done_callback(self._freeing.discard)

    async def _free(self, session_id: str) -> None:
        try:
            await self.freed(session_id)
        except StorageError:
            log.exception("asking the database who waits for a budget")

    @contextmanager
    def draining(self) -> Iterator[None]:
        """While a drain runs, changes that other processes make are noticed."""
        self._drains += 1
        self._watch()
        try:
            yield
        finally:
            self._drains -= 1
            self._watch()

    async def paused(self, session_id: str) -> None:
        """The Session waits here. What was freed or changed while that was recorded wakes it at once."""
        self._paused.add(session_id)
        self._watch()
        if await self._store.refusing_budget(session_id) is None:
            self._wake((session_id,))

    def resumed(self, session_id: str) -> None:
        self._paused.discard(session_id)
        self._watch()

    async def forget_pause(self, session_id: str) -> None:
        """The Session waits no longer, because what it owed has ended."""
        self.resumed(session_id)
        await self._log.write(session_id, (), (Statement("pause.clear", {"session_id": session_id}),))

    async def close(self) -> None:
        self._drains = 0
        self._paused.clear()
        self._watch()
        if ongoing := {*self._freeing, *((self._looking,) if self._looking is not None else ())}:
            await asyncio.wait(ongoing)

    async def _publish(self, session_id: str, budget: Budget | None) -> None:
        session = await self._store.get(session_id)
        event = BudgetSet(timestamp=self._clock.now(), session_id=session_id, budget=budget)
        await self._log.publish(event, location=session.location, before=(existing(session_id),))
        await self.changed(session_id)

    def _wake(self, session_ids: Iterable[str]) -> None:
        for session_id in sorted(session_ids):
            self._wakeups.session(session_id)

    def _watch(self) -> None:
        wanted = bool(self._drains or self._paused)
        if wanted and not self._watches:
            self._watching.enter_context(self._log.signals.watch(self._look))
        elif not wanted and self._watches:
            self._watching.close()
        self._watches = wanted

    def _look(self) -> None:
        """Some process has committed something."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._notice(), name="holdfast-budgets")

    async def _notice(self) -> None:
        try:
            known = self.revision
            if await self.refresh() != known:
                paused = tuple(self._paused)
                gone_on = [id for id in paused if await self._store.pause(id) is None]  # in another process
                self._paused.difference_update(gone_on)
                self._watch()
                self._wake(self._paused)
        except StorageError:
            log.exception("asking the database for changed budgets")
        finally:
            self._looking = None


def check_budget(budget: Budget) -> None:
    """Refuse a budget that limits nothing."""
    if budget == NO_LIMITS:
        raise InvalidRequest(EMPTY, kind="Payload", field="budget")


def settle(session_id: str) -> tuple[Statement, ...]:
    """Count what the Session has used since, and give back what is no longer reserved."""
    key = {"session_id": session_id}
    names = ("count_in_totals", "count_shares", "release_in_totals", "release_shares")
    return tuple(Statement(f"budget.{name}", key) for name in names)


def admit(session_id: str) -> tuple[Statement, ...]:
    """The condition for a request: after everything was counted, each budget of the chain has something left."""
    key = {"session_id": session_id}

    def refused() -> BudgetReached:
        return BudgetReached(session_id, session_id, "nothing is left")

    check = Statement("budget.refuses", key, found=False, error=refused)
    return Statement("budget.join", key), *settle(session_id), check


def reserve(session_id: str, money: int, tokens: int) -> tuple[Statement, ...]:
    """Reserve for one request, in place of what the Session had reserved. `money` is in billionths of a dollar."""
    row: dict[str, Value] = {"session_id": session_id, "money": money, "tokens": tokens}
    return Statement("budget.reserve_in_totals", row), Statement("budget.reserve_shares", row)


def described(info: BudgetInfo) -> str:
    """What was used of the limits of which nothing is left, or of all."""
    names = info.reached or tuple(name for name in NAMES if getattr(info.limit, name) is not None)
    return "; ".join(_part(info, name) for name in names)


async def paused_wait(store: SessionStore, session_id: str, pause: Pause) -> WaitInfo:
    """What a Session waits for that a budget refused."""
    infos = await store.budgets(session_id)
    info = next((info for info in infos if info.session_id == pause.budget_id), None)
    whose = "this session" if pause.budget_id == session_id else pause.budget_id
    if info is None or not info.reached:
        what, ends = f"a process that goes on: the budget of {whose} has something left again", "one goes on"
    else:
        what, ends = f"the budget of {whose}: {described(info)}", ENDS
    return WaitInfo(kind="budget", since=pause.since, what=what, ends=ends, id=pause.budget_id, budget=info)


NAMES: tuple[LimitName, ...] = ("money", "tokens", "turns", "time")


def _part(info: BudgetInfo, name: LimitName) -> str:
    used, limit, reserved = (getattr(part, name) for part in (info.used, info.limit, info.reserved))
    text = f"{_amount(name, used)} of {_amount(name, limit)}"
    return f"{text} used, {_amount(name, reserved)} reserved" if reserved else f"{text} used"


def _amount(name: LimitName, value: float) -> str:
    match name:
        case "money":
            return f"${value:.2f}" if value in (0, round(value, 2)) else f"${value:.6f}".rstrip("0")
        case "time":
            return f"{value:g} s"
        case _:
            return f"{value:,} {name}"
