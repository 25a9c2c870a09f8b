"""What a drain spends of the budgets of its Session and its ancestors.

Invariants
- A request is sent only after its dispatch was committed together with a reservation, on the condition that each budget
  had something left. So each running Session exceeds a budget by one request at most.
- The commit that ends a turn counts what it used and gives the reservation back.
- A Session without a budget above it pays nothing for this but one read for each drain."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Statement
from holdfast.core.observe.log_context import fields
from holdfast.core.session.budget_projector import BILLIONTHS
from holdfast.core.session.budgets import admit, reserve, settle
from holdfast.core.session.errors import BudgetReached
from holdfast.schema.budget import NO_LIMITS
from holdfast.schema.budget_event import BudgetSet
from holdfast.schema.frozen import Frozen
from holdfast.schema.session import CacheTokens, Tokens
from holdfast.schema.session_event import (
    CompactionEnded,
    CompactionFailed,
    StepEnded,
    StepFailed,
    UsageRecorded,
)
from holdfast.schema.turn_event import TurnAbandoned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.clock import Clock
    from holdfast.core.database.unit import Value
    from holdfast.core.runner.outbox import Outbox
    from holdfast.core.session.budgets import Budgets
    from holdfast.core.session.store import SessionStore
    from holdfast.core.session.stored_start import BudgetsAtStart
    from holdfast.schema.budget import Budget
    from holdfast.schema.record import Record
    from holdfast.schema.turn_event import TurnAnswered

SETTLING = (StepEnded, StepFailed, TurnAbandoned, UsageRecorded, CompactionEnded, CompactionFailed)
"""Events that end a reservation or say what was used."""
OUTPUT_SHARE = 8
"""The part of the longest answer that is reserved: one in so many tokens."""
OUTPUT_TOKENS = 4096
"""At most so much is reserved for an answer. Most answers are shorter than what the model could give."""

log = logging.getLogger(__name__)


class Expected(Frozen):
    """What a request may cost: `money` in billionths of a dollar."""

    money: int
    tokens: int

    @classmethod
    def of(cls, used: Tokens, price: Callable[[Tokens], float]) -> Expected:
        total = used.input + used.output + used.reasoning + used.cache.read + used.cache.write
        return cls(max(0, round(price(used) * BILLIONTHS)), total)

    @classmethod
    def estimated(cls, input_tokens: int, output_limit: int, price: Callable[[Tokens], float]) -> Expected:
        """Of a request with so many tokens, to a model that may answer with so many."""
        output = min(OUTPUT_TOKENS, output_limit // OUTPUT_SHARE) if output_limit > 0 else OUTPUT_TOKENS // OUTPUT_SHARE
        none = CacheTokens(read=0, write=0)
        return cls.of(Tokens(input=input_tokens, output=output, reasoning=0, cache=none), price)


class Spending:
    """Of one drain."""

    def __init__(self, budgets: Budgets, store: SessionStore, clock: Clock, session_id: str) -> None:
        self._budgets = budgets
        self._store = store
        self._clock = clock
        self._session_id = session_id
        self._seen = 0
        self.limited = False
        """Whether the Session or an ancestor has a budget."""
        self._was_paused = False
        self._has_room = False
        """Whether something was left when the drain began, and nobody has asked yet."""

    async def begin(self, outbox: Outbox, default: Budget | None, revision: int, known: BudgetsAtStart | None) -> None:
        """`default` is the budget of a new root for which nobody has decided. `revision` is that of all budgets, and
        `known` what those of the Session said with it, if that was read."""
        self._budgets.learn(revision)
        if default is not None and default != NO_LIMITS and await self._store.takes_default_budget(self._session_id):
            await outbox.publish(BudgetSet(timestamp=self._clock.now(), session_id=self._session_id, budget=default))
            self._budgets.learn(1)
            known = None
        if known is None and self._budgets.revision:
            known = await self._store.budgets_at_start(self._session_id)
            self._budgets.learn(known.revision)
        if known is not None:
            self._seen, self.limited = known.revision, known.limited
            self._was_paused, self._has_room = known.paused, not known.refuses

    async def check(self, outbox: Outbox) -> None:
        """Raise BudgetReached if there is nothing left for another request. What was read at the start of the drain
        counts for its first request; the commit that dispatches it checks again."""
        await self._look()
        has_room, self._has_room = self._has_room, False
        if self.limited and not has_room and await self._store.refusing_budget(self._session_id) is not None:
            await outbox.publish(local=settle(self._session_id))  # this drain may have been the one that reserved it
            await self._budgets.check(self._session_id)
        if self._was_paused:
            self._was_paused = False
            await outbox.publish(local=(Statement("pause.clear", {"session_id": self._session_id}),))
            self._budgets.resumed(self._session_id)

    async def dispatch(self, outbox: Outbox, dispatched: Record, expected: Callable[[], Expected]) -> None:
        """Record the dispatch. Without a budget that is not waited for. Raises BudgetReached, and then nothing of it is
        recorded."""
        await self._look()
        if not self.limited:
            outbox.submit(dispatched)
            return
        await self._reserve(outbox, expected(), dispatched)
        self._budgets.freed_soon(self._session_id)

    async def reserve(self, outbox: Outbox, expected: Callable[[], Expected]) -> None:
        """Reserve for a request that has no dispatch. Raises BudgetReached."""
        await self._look()
        if self.limited:
            await self._reserve(outbox, expected())

    async def answered(self, outbox: Outbox, answered: TurnAnswered) -> None:
        """The answer is complete and its calls still run: from now on what it used is reserved, and no longer an
        estimate."""
        expected = Expected.of(answered.tokens, lambda used: answered.cost)
        with suppress(StorageError):  # calls run: the commit that ends the turn tells what is wrong
            await outbox.publish(answered, local=reserve(self._session_id, expected.money, expected.tokens))
            await self._budgets.freed(self._session_id)

    def settlement(self, staged: Sequence[Record]) -> tuple[Statement, ...]:
        """What the commit of these events has to do for the budgets."""
        if self.limited and any(isinstance(event, SETTLING) for event in staged):
            return settle(self._session_id)
        return ()

    async def pause(self, outbox: Outbox, reached: BudgetReached) -> None:
        """Let the Session wait for its budget, for everyone to see."""
        row: dict[str, Value] = {"session_id": self._session_id, "budget_id": reached.budget_id}
        row["since"] = self._clock.now()
        await outbox.publish(local=(Statement("pause.set", row),))
        log.info("waiting for a budget", extra=fields(budget=reached.budget_id))
        await self._budgets.paused(self._session_id)

    async def paused(self) -> bool:
        """Whether an earlier drain left the Session waiting for its budget."""
        await self._budgets.refresh()
        return self._budgets.revision > 0 and await self._store.pause(self._session_id) is not None

    async def finish(self) -> None:
        if self.limited:
            await self._budgets.freed(self._session_id)

    async def _reserve(self, outbox: Outbox, expected: Expected, *events: Record) -> None:
        try:
            await outbox.publish(
                *events,
                before=admit(self._session_id),
                local=reserve(self._session_id, expected.money, expected.tokens),
            )
        except BudgetReached:
            raise await self._budgets.reached(self._session_id) from None

    async def _look(self) -> None:
        """Ask again whether there is a budget, after any was changed."""
        if self._seen != self._budgets.revision:
            self._seen, self._has_room = self._budgets.revision, False
            self.limited = bool(await self._store.budgets(self._session_id))
