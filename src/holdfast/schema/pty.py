"""Interactive terminals and their events."""

from typing import Annotated, Literal

import msgspec

from holdfast.schema.record import Record

PtyIDField = Annotated[str, msgspec.Meta(pattern="^pty")]
Cells = Annotated[int, msgspec.Meta(ge=1, le=0xFFFF)]
"""The kernel stores rows and columns in 16 bits."""


class Pty(Record):
    id: PtyIDField
    title: str
    command: str
    args: tuple[str, ...]
    cwd: str
    status: Literal["running", "exited"]
    pid: Annotated[int, msgspec.Meta(ge=0)]
    exit_code: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """128 plus the signal number if a signal ended it."""


class PtySize(Record):
    rows: Cells
    cols: Cells


class PtyTicket(Record):
    """A ticket for one connection. `expires_in` is in seconds."""

    ticket: str
    expires_in: int = msgspec.field(name="expires_in")


class PtyCreated(Record):
    info: Pty


class PtyUpdated(Record):
    info: Pty


class PtyExited(Record):
    id: PtyIDField
    exit_code: Annotated[int, msgspec.Meta(ge=0)]


class PtyDeleted(Record):
    id: PtyIDField
