"""ASGI extensions with which the server below tells the application about a connection, and is told about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.server.types import Scope

AUTHENTICATED = "holdfast.authenticated"
"""`report` is called once a caller has presented valid credentials, so that the server below knows which connections to
keep."""
LOCAL = "holdfast.local"
"""Present if the connection came over the socket that only processes of this user can open."""


def report_authenticated(scope: Scope) -> None:
    if (extensions := scope.get("extensions")) and AUTHENTICATED in extensions:
        extensions[AUTHENTICATED]["report"]()


def is_local(scope: Scope) -> bool:
    return LOCAL in (scope.get("extensions") or {})
