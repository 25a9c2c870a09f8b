"""Reads a SQLite file of another program. It may have been made to harm: only its ordinary tables are read, values are
bounded, and nothing is written to it."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import apsw

from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

HEADER = b"SQLite format 3\0"
BUSY_MILLISECONDS = 5_000
SETTINGS = ("query_only=on", "trusted_schema=off", "cell_size_check=on", "mmap_size=0")


class ForeignFileUnreadable(HoldfastError):
    """The file is damaged, is no SQLite file, or a value in it is too large."""


class ForeignFile:
    """Blocks. May be used from any thread, by one at a time."""

    def __init__(self, path: Path, longest: int) -> None:
        """`longest` bounds a value, in bytes. Raises ForeignFileUnreadable."""
        with ExitStack() as stack:
            try:
                self._connection = stack.enter_context(
                    closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY))
                )
                self._connection.set_busy_timeout(BUSY_MILLISECONDS)
                self._connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
                self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, longest)
                for setting in SETTINGS:
                    self._connection.execute(f"pragma {setting}").fetchall()
            except apsw.Error as error:
                raise ForeignFileUnreadable(str(error)) from error
            stack.pop_all()

    def columns(self, table: str) -> frozenset[str]:
        """The columns of an ordinary table; none if there is no such table."""
        query = "select name from pragma_table_list where name = ? and type = 'table' and schema = 'main'"
        if not list(self.rows(query, (table,))):
            return frozenset()
        return frozenset(str(row["name"]) for row in self.rows("select name from pragma_table_info(?)", (table,)))

    def rows(self, query: str, parameters: tuple[str, ...] = ()) -> Iterator[Mapping[str, Any]]:
        """Rows by the names of their columns. Raises ForeignFileUnreadable."""
        try:
            cursor = self._connection.execute(query, parameters)
            names: list[str] = []
            for row in cursor:
                names = names or [column[0] for column in cursor.get_description()]
                yield dict(zip(names, row, strict=True))
        except apsw.Error as error:
            raise ForeignFileUnreadable(str(error)) from error

    def close(self) -> None:
        self._connection.close()
