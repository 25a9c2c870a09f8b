"""The payload of the durable event about budgets. Private."""

from holdfast.schema.budget import Budget
from holdfast.schema.session_event import SessionPayload


class BudgetSet(SessionPayload):
    """The budget of a Session from now on; without one it was removed."""

    budget: Budget | None = None
