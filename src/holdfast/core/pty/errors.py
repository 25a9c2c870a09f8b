"""What can go wrong with a terminal, as expected failures.

PtyError
├── PtyNotFound      no such terminal in this Location
├── PtyExited        its process has ended, so there is nothing to attach to
├── PtyNotStarted    the command or its directory cannot be used
└── TooManyPtys      as many run as may run
"""

from __future__ import annotations


class PtyError(Exception):
    pass


class PtyNotFound(PtyError):
    tag = "Pty.NotFoundError"

    def __init__(self, pty_id: str) -> None:
        super().__init__(f"PTY session not found: {pty_id}")
        self.pty_id = pty_id


class PtyExited(PtyError):
    tag = "Pty.ExitedError"

    def __init__(self, pty_id: str) -> None:
        super().__init__(f"PTY session has exited: {pty_id}")
        self.pty_id = pty_id


class PtyNotStarted(PtyError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"The terminal cannot be started: {reason}")
        self.reason = reason


class TooManyPtys(PtyError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} terminals run here already; close one first")
        self.limit = limit
