"""Projections of budgets, and the operational counts beside them.

What was used is counted by differences: a share holds what of a Session is already part of a budget's total, so that
counting again adds nothing. A rebuild touches neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Value
from holdfast.schema.budget import NO_LIMITS
from holdfast.schema.budget_event import BudgetSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.event.projection import Projected, Projector
    from holdfast.schema.budget import Budget
    from holdfast.schema.record import Record

BILLIONTHS = 1_000_000_000
MILLISECONDS = 1000

OPENED = ("open_total", "open_shares", "count_all_in_total", "count_all_shares", "revise")
REMOVED = ("drop_total", "drop_shares", "revise")
DELETED = ("leave_totals", "leave_shares", *REMOVED)


def budget_set(event: Projected) -> tuple[Statement, ...]:
    data: BudgetSet = event.data
    key = {"session_id": data.session_id}
    if data.budget is None or data.budget == NO_LIMITS:
        return Statement("budget.remove", key), *_operational(REMOVED, key)
    return Statement("budget.set", {**key, **_row(data.budget)}), *_operational(OPENED, key)


def budget_deleted(session_id: str) -> tuple[Statement, ...]:
    """Operational statements for a Session that is deleted. What it used stays part of its ancestors' budgets."""
    key = {"session_id": session_id}
    rest = (Statement(name, key, operational=True) for name in ("pause.clear", "work.forget"))
    return *_operational(DELETED, key), *rest


def budget_released(session_id: str) -> tuple[Statement, ...]:
    """Operational statements for a Session that has no parent any more. What it and those below it use from now on is
    not part of the budgets above; what they used before stays."""
    return _operational(("leave_totals_above", "leave_shares_above"), {"session_id": session_id})


BUDGET_PROJECTORS: dict[type[Record], Projector] = {BudgetSet: budget_set}


def _operational(names: tuple[str, ...], key: Mapping[str, Value]) -> tuple[Statement, ...]:
    return tuple(Statement(f"budget.{name}", key, operational=True) for name in names)


def _row(budget: Budget) -> dict[str, Value]:
    return {
        "money": None if budget.money is None else round(budget.money * BILLIONTHS),
        "tokens": budget.tokens,
        "turns": budget.turns,
        "time": None if budget.time is None else round(budget.time * MILLISECONDS),
    }
