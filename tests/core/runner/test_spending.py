"""What a drain spends: corners that need a storage that fails."""

from __future__ import annotations

from typing import Any, cast

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.database.errors import StorageBusy
from holdfast.core.runner.spending import Spending
from holdfast.core.session.stored_start import BudgetsAtStart
from holdfast.schema.session import NO_TOKENS
from holdfast.schema.turn_event import TurnAnswered

pytestmark = pytest.mark.anyio


class Limited:
    """Budgets and store of a Session that has one."""

    revision = 1

    def learn(self, revision: int) -> None: ...


class Busy:
    """An outbox whose commits fail."""

    async def publish(self, *events: Any, **statements: Any) -> None:
        raise StorageBusy("holdfast.db", 5.0)


async def test_a_reservation_that_cannot_be_corrected_leaves_the_calls_of_the_turn_alone() -> None:
    """SES-373: they run by then, and their settlements are committed, or fail, by themselves."""
    known = cast("Any", Limited())
    spending = Spending(known, known, SystemClock(), "ses_1")
    at_start = BudgetsAtStart(1, limited=True, refuses=False, paused=False)
    await spending.begin(cast("Any", Busy()), None, 1, at_start)
    answered = TurnAnswered(timestamp=1, session_id="ses_1", cost=0.0, tokens=NO_TOKENS)
    await spending.answered(cast("Any", Busy()), answered)
