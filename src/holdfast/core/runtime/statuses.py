"""Live events about the execution of a Session: that it works, that it is idle, how it failed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.schema.live_event import Busy, ErrorInfo, Idle, SessionError, SessionIdle, SessionStatus

if TYPE_CHECKING:
    from holdfast.core.event.log import EventLog
    from holdfast.schema.location import Location

LOGGED_CHARACTERS = 500

log = logging.getLogger(__name__)


class Statuses:
    def __init__(self, events: EventLog) -> None:
        self._log = events

    def busy(self, session_id: str, location: Location) -> None:
        self._log.announce(SessionStatus(session_id=session_id, status=Busy()), location=location)

    def idle(self, session_id: str, location: Location) -> None:
        self._log.announce(SessionIdle(session_id=session_id), location=location)
        self._log.announce(SessionStatus(session_id=session_id, status=Idle()), location=location)

    def failed(self, session_id: str, location: Location | None, error: Exception) -> None:
        log.warning("session %s: %s: %s", session_id, type(error).__name__, str(error)[:LOGGED_CHARACTERS])
        info = ErrorInfo(name="UnknownError", data={"message": str(error)})
        self._log.announce(SessionError(session_id=session_id, error=info), location=location)
