"""What requests to models used in a period."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import SAFE
from holdfast.schema.ids import SessionIDField
from holdfast.schema.record import Record
from holdfast.schema.usage import UsageReport

MillisField = Annotated[int, msgspec.Meta(ge=0, le=SAFE)]


class UsageQuery(Record):
    by: (
        Annotated[str, msgspec.Meta(pattern=r"^(day|project|model|session)(,(day|project|model|session)){0,3}$")] | None
    ) = None
    """What to group by, separated by commas: `day`, `project`, `model`, `session`. Without it only the total."""
    since: MillisField | None = None
    """Milliseconds since the epoch; 30 days before `until` by default."""
    until: MillisField | None = None
    """Now by default."""
    offset: Annotated[int, msgspec.Meta(ge=-1440, le=1440)] | None = None
    """Minutes east of UTC, at which days begin; 0 by default."""
    directory: str | None = None
    """Only Sessions of this directory, and everything below them."""
    project: str | None = None
    """Only Sessions of this project, by its id, and everything below them."""
    session: SessionIDField | None = None
    """Only this Session, and everything below it."""


ENDPOINTS: tuple[Endpoint, ...] = (
    replace(
        endpoint(
            "system.usage",
            "GET /api/usage",
            "holdfast.usage.get",
            "Tokens, cost and cache savings of all requests to models in a period, grouped by day, project, model or "
            "tree. Deleted Sessions are not part of it.",
            role="read",
            query=UsageQuery,
            data=UsageReport,
        ),
        extension=True,
        handler="usage.usage",
    ),
)
