"""Budgets and usage of Sessions. OpenCode has no such operations."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import of_session
from holdfast.schema.budget import Budget, BudgetInfo, UsageInfo
from holdfast.schema.record import Record


class BudgetPayload(Record):
    budget: Budget


_OF_SESSION = of_session(
    endpoint(
        "sessions.budgets",
        "GET /budget",
        "holdfast.session.budget.list",
        "The budgets that hold for a Session, with what was used of them: its own first, then those of its ancestors.",
        role="read",
        data=list[BudgetInfo],
        handler="budgets.list",
    ),
    endpoint(
        "sessions.set_budget",
        "PUT /budget",
        "holdfast.session.budget.set",
        "Limit what a Session and everything below it may use, in place of the budget it had. Sessions that wait for "
        "the former budget go on.",
        role="admin",
        payload=BudgetPayload,
        data=BudgetInfo,
        handler="budgets.set",
    ),
    endpoint(
        "sessions.remove_budget",
        "DELETE /budget",
        "holdfast.session.budget.remove",
        "Remove the budget of a Session, if it has one. Sessions that wait for it go on.",
        role="admin",
        handler="budgets.remove",
    ),
    endpoint(
        "sessions.usage",
        "GET /usage",
        "holdfast.session.usage",
        "What a Session used by itself, and together with everything below it.",
        role="read",
        data=UsageInfo,
        handler="budgets.usage",
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = tuple(replace(endpoint, extension=True) for endpoint in _OF_SESSION)
