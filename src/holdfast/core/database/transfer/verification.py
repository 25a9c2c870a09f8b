"""Compares a copy with its source: the events of each aggregate one by one, all other tables by count and digest."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.database.errors import TransferDiffers, TransferRefused
from holdfast.core.database.transfer.tables import COPIED, EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.core.database.transfer.store import TransferStore
    from holdfast.core.database.unit import Row, Value

DIGEST_BYTES = 16
TOLD_ROWS = 1_000


class Digest(NamedTuple):
    """Of the rows of a table, in whatever order: stores sort some characters differently."""

    rows: int
    total: int


def check_columns(source: TransferStore, target: TransferStore) -> None:
    """Raises TransferRefused if the stores do not have the same tables."""
    for table in (*(table.name for table in COPIED), EVENTS):
        if source.columns(table) != target.columns(table):
            raise TransferRefused(f"the table {table} has other columns in {target.name} than in {source.name}")


def verify(source: TransferStore, target: TransferStore, told: Callable[[str, int], None]) -> None:
    """Raises TransferDiffers for the first difference. `told` gets the name of a table and how many of its rows were
    compared."""
    for table in COPIED:
        columns = source.columns(table.name)
        ours, theirs = (digest(store.rows(table, columns)) for store in (source, target))
        if ours.rows != theirs.rows:
            raise _differs(target, f"the table {table.name} has {theirs.rows} rows there and {ours.rows} here")
        if ours != theirs:
            raise _differs(target, f"rows of the table {table.name} are not the same")
        told(table.name, ours.rows)
    _verify_events(source, target, told)


def digest(rows: Iterable[Row]) -> Digest:
    count = total = 0
    for row in rows:
        text = repr(tuple(map(_comparable, row))).encode("utf-8", "surrogatepass")
        total += int.from_bytes(blake2b(text, digest_size=DIGEST_BYTES).digest(), "big")
        count += 1
    return Digest(count, total % (1 << 8 * DIGEST_BYTES))


def _verify_events(source: TransferStore, target: TransferStore, told: Callable[[str, int], None]) -> None:
    columns = source.columns(EVENTS)
    at_aggregate, at_seq = columns.index("aggregate_id"), columns.index("seq")
    current = ""
    copies: Iterator[Row] = iter(())
    compared = 0
    for event in source.events(columns):
        id = str(event.row[at_aggregate])
        if id != current:
            _expect_end(target, current, copies)
            current, copies = id, target.events_of(id, columns)
        copy = next(copies, None)
        if copy is None or copy[at_seq] != event.row[at_seq]:
            raise _differs(target, f"the event {event.row[at_seq]!r} of {id} is missing there")
        if tuple(map(_comparable, copy)) != tuple(map(_comparable, event.row)):
            names = ", ".join(_differing(columns, event.row, copy))
            raise _differs(target, f"the event {event.row[at_seq]!r} of {id} is another one there ({names})")
        compared += 1
        if compared % TOLD_ROWS == 0:
            told(EVENTS, compared)
    _expect_end(target, current, copies)
    for store in (source, target):
        if (count := store.count(EVENTS)) != compared:
            raise _differs(target, f"{store.name} has {count} events, and {compared} belong to Sessions of the source")
    told(EVENTS, compared)


def _expect_end(target: TransferStore, aggregate_id: str, copies: Iterator[Row]) -> None:
    if next(copies, None) is not None:
        raise _differs(target, f"{aggregate_id} has more events there")


def _differing(columns: Sequence[str], row: Row, copy: Row) -> Iterator[str]:
    return (name for name, ours, theirs in zip(columns, row, copy, strict=True) if _comparable(ours) != theirs)


def _comparable(value: Value) -> Value:
    """A text in UTF-8 and the text itself are the same to the stores."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


def _differs(target: TransferStore, difference: str) -> TransferDiffers:
    return TransferDiffers(
        f"the copy in {target.name} is not what the source has: {difference}. It stays marked as incomplete; "
        "`holdfast migrate --cancel` with its address in --from empties it, then copy again"
    )
