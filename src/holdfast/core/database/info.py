"""What is told about a store: never a password."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.database.place import public_place
from holdfast.schema.frozen import Frozen
from holdfast.schema.overview import StoreInfo

if TYPE_CHECKING:
    from holdfast.core.database.database import Database
    from holdfast.core.database.place import Place


ROLE_FIX = "use a role that owns its database and nothing else: docs/how-to/postgres-role.md"


class StoreNames(Frozen):
    kind: str
    version: str
    database: str
    """Empty for a file, as are the following."""
    schema: str
    role: str
    superuser: bool
    """Whether the role may do everything on its server."""


class _Numbers(Frozen):
    schema: int
    bytes: int | None
    """Of the tables, if the store knows."""
    sessions: int
    events: int


class _Sizes(Frozen):
    """Of a file, in bytes; None for what cannot be read."""

    file: int | None
    log: int | None
    free: int | None


async def superuser_problem(database: Database) -> str | None:
    """None unless the role in the address of the database may do everything on its server."""
    (names,) = await database.fetch("store.info", {}, StoreNames)
    if not names.superuser:
        return None
    return (
        f"the role {names.role} is a superuser of its server: anyone who reads the address of the database may read "
        "all databases of the server and run programs there"
    )


async def describe_store(database: Database, place: Place) -> str:
    """One line, such as `PostgreSQL 16.4 at postgresql://holdfast@db.example/holdfast, …`."""
    (info,) = await database.fetch("store.info", {}, StoreNames)
    named = {"database": info.database, "schema": info.schema, "role": info.role}
    rest = "".join(f", {name} {value}" for name, value in named.items() if value)
    return f"{info.kind} {info.version} at {public_place(place)}{rest}"


async def store_info(database: Database, place: Place) -> StoreInfo:
    """Versions, sizes and numbers. Its cost is bounded, however much is stored."""
    outage = database.outage()
    (names,) = await database.fetch("store.info", {}, StoreNames)
    (numbers,) = await database.fetch_large("store.numbers", {}, _Numbers)
    sizes = await asyncio.to_thread(_sizes, place) if isinstance(place, Path) else _Sizes(numbers.bytes, None, None)
    return StoreInfo(
        kind="sqlite" if isinstance(place, Path) else "postgresql",
        name=public_place(place),
        version=names.version,
        schema=numbers.schema,
        bytes=sizes.file,
        log_bytes=sizes.log,
        free_bytes=sizes.free,
        sessions=numbers.sessions,
        events=numbers.events,
        outage=f"{outage.reason} (for {outage.seconds:.0f} s)" if outage is not None else None,
    )


def _sizes(file: Path) -> _Sizes:
    free = None
    with suppress(OSError):
        free = shutil.disk_usage(file.parent).free
    return _Sizes(_size(file), _size(file.with_name(f"{file.name}-wal")), free)


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None
