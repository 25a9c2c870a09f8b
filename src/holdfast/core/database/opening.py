"""Opens the store at a place. PostgreSQL's modules are imported only for an address."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.errors import StorageError

if TYPE_CHECKING:
    from holdfast.core.database.database import Database
    from holdfast.core.database.place import Place

POSTGRES = "holdfast.core.database.postgres"
DRIVER = "psycopg"


class DriverMissing(StorageError):
    """The package for PostgreSQL is not installed."""

    def __init__(self) -> None:
        super().__init__("PostgreSQL needs the package psycopg: `pip install 'holdfast-runtime[postgres]'` installs it")


def open_database(place: Place) -> Database:
    if isinstance(place, Path):
        return SqliteDatabase(place)
    found: Database = postgres_module("database").PostgresDatabase(place)
    return found


def postgres_module(name: str) -> Any:
    """A module of PostgreSQL's package. Raises if what it needs is not installed."""
    if find_spec(DRIVER) is None:
        raise DriverMissing
    try:
        return import_module(f"{POSTGRES}.{name}")
    except ImportError as error:
        # The package is there, but libpq is not, or it is for another system.
        raise StorageError(f"PostgreSQL cannot be used: {error}") from error
