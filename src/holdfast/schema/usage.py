"""What requests to models used in a period, grouped by day, project, model or Session."""

from typing import Annotated, Literal

import msgspec

from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record
from holdfast.schema.session import Tokens

UsageGroup = Literal["day", "project", "model", "session"]


class UsageProject(Record):
    id: str
    directory: str


class UsageSession(Record):
    id: str
    title: str


class UsageSum(Record):
    requests: int
    """Those whose answer was complete, with the runtime's own: titles and compactions too."""
    tokens: Tokens
    cost: float
    """In US dollars."""
    saved: float
    """What the tokens in the providers' caches would have cost more as other input, at the prices of that time. Less
    than nothing if writing to caches cost more than reading saved."""
    unpriced: int
    """Requests with tokens in a cache of which it is not known what that saved: nothing of them is in `saved`."""


class UsageRow(UsageSum):
    """What was not grouped by is absent."""

    day: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")] | None = None
    project: UsageProject | None = None
    model: ModelRef | None = None
    """Absent also if it was not recorded."""
    session: UsageSession | None = None
    """The root of the tree whose Sessions made the requests."""


class UsageReport(Record):
    since: int
    until: int
    """Milliseconds since the epoch; requests that ended from `since` on and before `until`."""
    rows: tuple[UsageRow, ...]
    """Ordered by day, project, Session and model."""
    total: UsageSum
