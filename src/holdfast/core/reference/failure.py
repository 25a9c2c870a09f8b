"""The reason why a repository could not be fetched, as one of our own sentences.

The model is told the reason. Git's output may contain text of the remote server, so it is searched and never shown. The
reason is stored beside the missing checkout, so that the next process knows it without another attempt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.core.atomic_write import atomic_write
from holdfast.core.process.git import NOT_FOUND, GitFailed

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN = "git could not fetch it"
NO_SPACE = "it could not be stored"
REASON_BYTES_LIMIT = 1000

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
    message = str(error)
    return next((reason for pattern, reason in _REASONS if re.search(pattern, message, re.IGNORECASE)), UNKNOWN)


def store_failure(checkout: Path, reason: str) -> bool:
    """Whether the reason differs from the stored one."""
    if stored_failure(checkout) == reason:
        return False
    atomic_write(_file(checkout), reason.encode())
    return True


def remove_failure(checkout: Path) -> None:
    _file(checkout).unlink(missing_ok=True)


def stored_failure(checkout: Path) -> str | None:
    """The reason of the last failed first fetch."""
    try:
        with _file(checkout).open("rb") as file:
            return file.read(REASON_BYTES_LIMIT).decode("utf-8", "replace") or None
    except OSError:
        return None


def _file(checkout: Path) -> Path:
    return checkout.with_name(f"{checkout.name}.failed")
