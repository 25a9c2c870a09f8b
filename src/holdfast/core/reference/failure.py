"""Why a repository could not be fetched, in words of ours.

The model is told the reason. What git printed may hold text of the remote server, so it is only searched, never shown.
The reason is kept beside the missing checkout: the next process tells the same, without waiting for another attempt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.core.atomic_write import atomic_write
from holdfast.core.process.git import NOT_FOUND, GitFailed

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN = "git could not fetch it"
NO_SPACE = "it could not be stored"
MOST_BYTES = 1000

_REASONS = (
    (re.escape(NOT_FOUND), "git was not found"),
    (r"took longer than", "fetching it took too long"),
    (r"could not resolve host", "its host is unknown"),
    (r"couldn't find remote ref|remote branch .* not found", "it has no such branch"),
    (r"authentication failed|permission denied|could not read (?:username|password)", "access to it was refused"),
    (r"host key verification|\b40[13]\b", "access to it was refused"),
    (r"connection (?:refused|reset|timed out)|timed out|unreachable|failed to connect", "its host cannot be reached"),
    (r"transport .* not allowed", "its protocol is not allowed"),
    (
        r"not found|does not exist|not appear to be a git repository|\b404\b",
        "there is no such repository, or no access",
    ),
)


def reason_for(error: GitFailed | OSError) -> str:
    if isinstance(error, OSError):
        return f"{NO_SPACE}: {error.strerror}" if error.strerror else NO_SPACE
    said = str(error)
    return next((reason for pattern, reason in _REASONS if re.search(pattern, said, re.IGNORECASE)), UNKNOWN)


def remember_failure(checkout: Path, reason: str) -> bool:
    """Whether this is news."""
    if known_failure(checkout) == reason:
        return False
    atomic_write(_file(checkout), reason.encode())
    return True


def forget_failure(checkout: Path) -> None:
    _file(checkout).unlink(missing_ok=True)


def known_failure(checkout: Path) -> str | None:
    """Of the last attempt to fetch what was never fetched."""
    try:
        with _file(checkout).open("rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace") or None
    except OSError:
        return None


def _file(checkout: Path) -> Path:
    return checkout.with_name(f"{checkout.name}.failed")
