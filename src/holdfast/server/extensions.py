"""ASGI extensions with which the server below tells the application about a connection, and is told about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.server.types import Scope

AUTHENTICATED = "holdfast.authenticated"
"""`report` is called once a caller has presented valid credentials, so that the server below knows which connections to
keep."""
ABORT = "holdfast.abort"
"""`abort` closes the connection at once, with what was not yet sent."""
LOCAL = "holdfast.local"
"""Present if the connection came over the socket that only processes of this user can open."""


def report_authenticated(scope: Scope) -> None:
    if (extensions := scope.get("extensions")) and AUTHENTICATED in extensions:
        extensions[AUTHENTICATED]["report"]()


def is_local(scope: Scope) -> bool:
    return LOCAL in (scope.get("extensions") or {})


def aborting(scope: Scope) -> Callable[[], None]:
    """Return what closes the connection at once. Below another server that is for the server to do."""
    extension = (scope.get("extensions") or {}).get(ABORT)
    return extension["abort"] if extension is not None else lambda: None
