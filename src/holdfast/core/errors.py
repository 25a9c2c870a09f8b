"""What every refusal of a Session's operation has in common; which there are stands with whoever refuses."""

from __future__ import annotations


class SessionError(Exception):
    """A Session operation was refused."""

    tag = "Session.Error"
