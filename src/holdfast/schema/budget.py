"""Budgets: limits on what a Session and everything below it may use, and what was used."""

from math import isfinite
from typing import Annotated, Literal

from msgspec import Meta

from holdfast.schema.ids import SessionIDField
from holdfast.schema.record import Record
from holdfast.schema.session import Tokens

MONEY = 1_000_000_000
"""The largest limit in dollars."""
COUNT = 2**53 - 1
SECONDS = 10_000_000_000

BUDGET_REACHED = "Session.BudgetReachedError"
"""The code of an outcome: a budget has nothing left, and the Session waits until it is raised or removed."""

LimitName = Literal["money", "tokens", "turns", "time"]


class Budget(Record, forbid_unknown_fields=True):
    """Limits for a Session and its children, their children and so on, all together. What has no limit is absent."""

    money: Annotated[float, Meta(ge=0, le=MONEY)] | None = None
    """In US dollars, by the prices of the models."""
    tokens: Annotated[int, Meta(ge=0, le=COUNT)] | None = None
    """Input, output, reasoning, and what was read from and written to the provider's cache."""
    turns: Annotated[int, Meta(ge=0, le=COUNT)] | None = None
    """Requests to models."""
    time: Annotated[float, Meta(ge=0, le=SECONDS)] | None = None
    """Seconds of work: of models that answer and tools that run, each by itself. Waiting for a person is none."""

    def __post_init__(self) -> None:
        for name in ("money", "time"):
            value = getattr(self, name)
            if isinstance(value, bool) or (isinstance(value, float) and not isfinite(value)):
                raise ValueError(f"`{name}` of a budget is a number, not {value}")


NO_LIMITS = Budget()


class Spent(Record):
    """In the units of a budget."""

    money: float
    tokens: int
    turns: int
    time: float


class BudgetInfo(Record):
    """A budget that holds for a Session: its own, or that of an ancestor."""

    session_id: SessionIDField
    """The Session whose budget it is."""
    limit: Budget
    used: Spent
    """By that Session and everything below it, since they were created."""
    reserved: Spent
    """For requests that have been sent and have not ended; an estimate."""
    reached: tuple[LimitName, ...] = ()
    """The limits of which nothing is left: no further request is sent."""


class UsageTotal(Record):
    cost: float
    """In US dollars."""
    tokens: Tokens
    turns: int
    """Requests to models."""
    time: float
    """Seconds of work, as in a budget."""
    sessions: int
    """How many Sessions this is the sum of."""


class UsageInfo(Record):
    own: UsageTotal
    tree: UsageTotal
    """Of the Session and everything below it."""
