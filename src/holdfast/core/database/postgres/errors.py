"""Errors of the server as errors of storage, by SQLSTATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.pq import DiagnosticField

from holdfast.core.database.errors import (
    StorageBusy,
    StorageChanged,
    StorageConnections,
    StorageCorrupt,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageTimeout,
    StorageTransferred,
    StorageUnavailable,
)
from holdfast.core.database.postgres.outages import COMMITS
from holdfast.core.database.transfer.mark import SQLSTATE

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from holdfast.core.database.postgres.address import Address

EXPECTATION = "22012"
"""Division by zero: how a statement says that its expectation does not hold, see `statement.py`."""
UNIQUE = "23505"
CONFLICTS = frozenset({UNIQUE, "40001", "40P01", "40003", "53200", "23P01"})
"""What two transactions at once can make of units that succeed one after the other."""
LOCK_TIMEOUT = "55P03"
CANCELLED = "57014"
READ_ONLY = "25006"
UNPREPARED = frozenset({"26000", "42P05", "08P01"})
"""What a pooler without prepared statements makes of them."""
STALE_PLAN = "0A000"
"""A table was changed below a prepared statement."""
GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
"""The connection is over, or of no use."""


class ConnectionLost(Exception):
    """The connection ended, or cannot be used any more. What was sent may have been executed."""


class StatementFailed(StorageError):
    """The server refused a statement."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(f"{message} (SQLSTATE {sqlstate})")
        self.sqlstate = sqlstate
        self.message = message


def failure(result: PGresult) -> StatementFailed:
    sqlstate = result.error_field(DiagnosticField.SQLSTATE)
    message = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or result.error_message.strip() or b"unknown error"
    return StatementFailed(sqlstate.decode() if sqlstate else "08006", message.decode("utf-8", "replace"))


def translate(error: StatementFailed, address: Address, seconds: float) -> StorageError:
    match error.sqlstate:
        case "55P03":
            return StorageBusy(address.name, seconds)
        case "53100":
            return StorageFull(address.name)
        case "57014":
            return StorageTimeout(address.name, seconds)
        case "25006":
            return StorageReadOnly(address.name)
        case "42501":
            return StorageDenied(address.name, error.message)
        case "42P01" | "42703" | "42883":  # a table, a column or a function is not there any more
            changed = StorageChanged(address.name)
            address.outages.failed(COMMITS, changed)
            return changed
        case state if state == SQLSTATE:
            return StorageTransferred(error.message)
        case "XX001" | "XX002":
            return StorageCorrupt(address.name, error.message)
        case state if state[:2] == "08":
            return StorageUnavailable(address.name, error.message)
        case _:
            return error


def refused_connection(address: Address, message: str) -> StorageUnavailable:
    """libpq reports a failed connection as text alone."""
    text = message.lower()
    if "read-only" in text or "hot standby" in text:
        return StorageReadOnly(address.name)
    if ("too many" in text and ("connections" in text or "clients" in text)) or "remaining connection slots" in text:
        return StorageConnections(address.name)
    if any(
        part in text for part in ("authentication", "no password supplied", "no pg_hba.conf entry", "permission denied")
    ):
        return StorageDenied(address.name, _reason(message))
    if "role" in text and "does not exist" in text:
        return StorageDenied(address.name, _reason(message))
    return StorageUnavailable(address.name, _reason(message))


def _reason(message: str) -> str:
    """What libpq says, without its guesses about the cause, which are indented."""
    lines = [line.strip() for line in message.splitlines() if line.strip() and not line.startswith("\t")]
    return "; ".join(line.replace("FATAL:  ", "") for line in lines) or "no connection"
