"""What is told about a store: never a password."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.database.place import public_place
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.database.database import Database
    from holdfast.core.database.place import Place


class StoreInfo(Frozen):
    kind: str
    version: str
    database: str
    """Empty for a file, as are the following."""
    schema: str
    role: str


async def describe_store(database: Database, place: Place) -> str:
    """One line, such as `PostgreSQL 16.4 at postgresql://holdfast@db.example/holdfast, …`."""
    (info,) = await database.fetch("store.info", {}, StoreInfo)
    named = {"database": info.database, "schema": info.schema, "role": info.role}
    rest = "".join(f", {name} {value}" for name, value in named.items() if value)
    return f"{info.kind} {info.version} at {public_place(place)}{rest}"
