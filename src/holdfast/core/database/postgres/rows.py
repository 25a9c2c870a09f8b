"""Rows of results, with the values that SQLite would return: numbers, texts, and bytes where it returns bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.database.postgres.statement import byte_columns
from holdfast.core.database.postgres.text import restore, restore_bytes
from holdfast.core.database.rows import row_mapper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from psycopg.pq.abc import PGresult

    from holdfast.core.database.unit import Row


def _text(value: bytes) -> str:
    return restore(value.decode())


def _bool(value: bytes) -> int:
    return int(value == b"t")


def _number(value: bytes) -> int | float:
    return int(value) if value.lstrip(b"-").isdigit() else float(value)


def _bytea(value: bytes) -> bytes:
    return bytes.fromhex(value[2:].decode())


SHORT_BYTES = 256 * 1024
"""What is converted on the event loop: less than a millisecond. The rest of a result is converted on a thread."""

# By the number of the type. Anything else is text.
CONVERSIONS: dict[int, Callable[[bytes], Any]] = {
    16: _bool,
    17: _bytea,
    20: int,
    21: int,
    23: int,
    26: int,
    700: float,
    701: float,
    1700: _number,
}


class RowReader:
    """Reads the results of one statement, as tuples or as structs of one kind."""

    def __init__(self, name: str, into: Any, result: PGresult) -> None:
        columns = [(result.fname(place) or b"").decode() for place in range(result.nfields)]
        as_bytes = byte_columns(name)
        self._converts = [
            restore_bytes if column in as_bytes else CONVERSIONS.get(result.ftype(place), _text)
            for place, column in enumerate(columns)
        ]
        self._places = list(enumerate(self._converts))
        self._map: Callable[[Iterable[Row]], list[Any]] | None = None if into is None else row_mapper(into, columns)

    def rows(self, result: PGresult, start: int = 0) -> list[Any]:
        """The rows from one on."""
        get, places = result.get_value, self._places
        found: list[Row] = [
            tuple([None if (value := get(row, place)) is None else convert(value) for place, convert in places])
            for row in range(start, result.ntuples)
        ]
        return found if self._map is None else self._map(found)

    def short_rows(self, result: PGresult) -> tuple[list[Any], int]:
        """The rows up to `SHORT_BYTES`, and the number of the row that is next."""
        get, converts = result.get_value, self._converts
        columns, left = range(len(converts)), SHORT_BYTES
        found: list[Row] = []
        for row in range(result.ntuples):
            values = [get(row, place) for place in columns]
            left -= sum(map(len, filter(None, values)))
            if left < 0:
                break
            found.append(
                tuple([None if value is None else convert(value) for value, convert in zip(values, converts)])  # noqa: B905
            )
        return (found if self._map is None else self._map(found)), len(found)


class RowReaders:
    """Made at the first result of each statement."""

    def __init__(self) -> None:
        self._readers: dict[tuple[str, Any], RowReader] = {}

    def of(self, name: str, into: Any, result: PGresult) -> RowReader:
        reader = self._readers.get((name, into))
        if reader is None:
            reader = self._readers[name, into] = RowReader(name, into, result)
        return reader
