"""Whether a file has the tables, indexes, views and triggers of Holdfast and no others.

A trigger runs with every commit, and a view takes the place of a table: somebody who hands over a file, or writes to
it, could let commits do something else than they say. Such a file looks healthy row by row."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from holdfast.core.database.queries import load_migrations
from holdfast.core.database.sqlite import MEMORY, BusyWait, connect
from holdfast.core.database.transfer.mark import CREATE
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OBJECTS = "select type, name, sql from sqlite_master"
OWN_OF_SQLITE = re.compile(r"sqlite_(autoindex_.*|sequence|stat[1-4])")
"""Tables and indexes that SQLite makes itself."""
NOISE = re.compile(r"[\s\"]+|\bif not exists\b", re.IGNORECASE)
"""What versions of SQLite write differently when they change a table."""

Key = tuple[str, str]


class SchemaObject(Frozen):
    type: str
    name: str
    sql: str | None


def foreign_objects(
    objects: Iterable[SchemaObject], version: int | None = None, more: str = "", optional: str = CREATE
) -> list[str]:
    """What is there and does not belong to the schema of this version, the newest by default, is other than there, or
    is missing. `more` creates further tables that must be there, `optional` those that may."""
    expected = _made(version if version is not None else len(load_migrations()), more)
    allowed = {**_made(0, optional), **expected}
    found = {
        (each.type, each.name): _plain(each.sql)
        for each in objects
        if not (each.type in ("table", "index") and OWN_OF_SQLITE.fullmatch(each.name))
    }
    return [
        *(f"{kind} {name}" for kind, name in sorted(found.keys() - allowed.keys())),
        *(
            f"another {kind} {name}"
            for kind, name in sorted(found.keys() & allowed.keys())
            if found[kind, name] != allowed[kind, name]
        ),
        *(f"no {kind} {name}" for kind, name in sorted(expected.keys() - found.keys())),
    ]


@cache
def _made(version: int, more: str) -> Mapping[Key, str]:
    """The objects that the migrations up to this version, and then `more`, make."""
    connection = connect(MEMORY, BusyWait())
    try:
        for script in (*load_migrations()[:version], more):
            connection.execute(script).fetchall()
        rows = [SchemaObject(*map(_text, row)) for row in connection.execute(OBJECTS)]
    finally:
        connection.close()
    return {(each.type, each.name): _plain(each.sql) for each in rows if not OWN_OF_SQLITE.fullmatch(each.name)}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _plain(sql: str | None) -> str:
    return NOISE.sub("", sql or "").lower()
