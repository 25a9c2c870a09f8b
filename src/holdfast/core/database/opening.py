"""Opens the store at a place. PostgreSQL's modules are imported only for an address."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.errors import StorageError

if TYPE_CHECKING:
    from holdfast.core.database.database import Database
    from holdfast.core.database.place import Place

POSTGRES = "holdfast.core.database.postgres.database"
DRIVER = "psycopg"


class DriverMissing(StorageError):
    """The package for PostgreSQL is not installed."""

    def __init__(self) -> None:
        super().__init__("PostgreSQL needs the package psycopg: `pip install 'holdfast-runtime[postgres]'` installs it")


def open_database(place: Place) -> Database:
    if isinstance(place, Path):
        return SqliteDatabase(place)
    if find_spec(DRIVER) is None:
        raise DriverMissing
    try:
        module = import_module(POSTGRES)
    except ImportError as error:
        # The package is there, but libpq is not, or it is for another system.
        raise StorageError(f"PostgreSQL cannot be used: {error}") from error
    found: Database = module.PostgresDatabase(place)
    return found
