"""What can go wrong with a terminal.

PtyNotFound                no such terminal in this Location
InvalidRequest
├── PtyExited              its process has ended, so it cannot be attached
└── PtyNotStarted          its command or directory cannot be used
ServiceUnavailable
└── TooManyPtys            the limit of running terminals is reached
"""

from __future__ import annotations

from holdfast.schema.exceptions import InvalidRequest, ServiceUnavailable
from holdfast.schema.exceptions import PtyNotFound as PtyNotFound


class PtyExited(InvalidRequest):
    code = "Pty.ExitedError"

    def __init__(self, pty_id: str) -> None:
        super().__init__(f"PTY session has exited: {pty_id}", kind="Payload")
        self.pty_id = pty_id


class PtyNotStarted(InvalidRequest):
    def __init__(self, reason: str) -> None:
        super().__init__(f"The terminal cannot be started: {reason}", kind="Payload")
        self.reason = reason


class TooManyPtys(ServiceUnavailable):
    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} terminals run here already; close one first", service="pty")
        self.limit = limit
