"""Failures of looking at a Session.

NotFound
└── NoSuchSequence    the log has no event with this sequence
InvalidRequest
├── TooManyEvents     more events would have to be replayed than one call may
├── InvalidPeriod     it ends before it begins
├── TooManyUsageRows  a report would have more rows than one answer may
└── UnknownUsageSession  a report is asked for of a Session that does not exist
"""

from __future__ import annotations

from holdfast.schema.exceptions import InvalidRequest, NotFound


class NoSuchSequence(NotFound):
    """The log of the Session has no event with this sequence."""

    def __init__(self, session_id: str, seq: int) -> None:
        super().__init__(f"The log of {session_id} has no event {seq}. Its `log` lists them.")


class TooManyEvents(InvalidRequest):
    """The past of a Session is computed by replaying its events, and these are too many for one call."""

    def __init__(self, events: int, most: int) -> None:
        super().__init__(f"{events} events would have to be replayed; at most {most} are", kind="Params", field="seq")


class InvalidPeriod(InvalidRequest):
    """The period ends before it begins."""

    def __init__(self, since: int, until: int) -> None:
        super().__init__(f"The period ends ({until}) before it begins ({since}).", kind="Query", field="until")


class TooManyUsageRows(InvalidRequest):
    """A report would have more rows than one answer may."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"The report has more than {most:,} rows. Choose a shorter period, or group by less.",
            kind="Query",
            field="by",
        )


class UnknownUsageSession(InvalidRequest):
    """A report is asked for of a Session that does not exist."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is no session {session_id}.", kind="Query", field="session")
