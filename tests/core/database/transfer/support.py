"""Stores to transfer between: files, and databases on the server of the test run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.core.database.postgres.test_equality import listed_units, nasty_units
from tests.stores.pool import TEMPLATE
from tests.stores.stores import STORES

from holdfast.core.database.opening import open_database
from holdfast.core.database.place import Place
from holdfast.core.database.transfer.opening import open_source, open_target
from holdfast.core.database.transfer.store import OwnerRow, TransferStore
from holdfast.core.database.transfer.tables import COPIED, EVENTS
from holdfast.core.database.transfer.transfer import Progress, Transfer, Transferred
from holdfast.core.database.unit import Committed, NewEvent, Row, Unit

FILE, SERVER = "file", "server"
FILES = pytest.mark.store("sqlite", reason="needs files alone")
SERVERS = pytest.mark.store("postgres", reason="needs PostgreSQL")
BOTH = [pytest.param(FILE, marks=FILES), pytest.param(SERVER, marks=SERVERS)]
PAIRS = [
    pytest.param(FILE, FILE, marks=FILES),
    pytest.param(FILE, SERVER, marks=SERVERS),
    pytest.param(SERVER, FILE, marks=SERVERS),
    pytest.param(SERVER, SERVER, marks=SERVERS),
]


def new_place(kind: str, folder: Path, name: str) -> Place:
    """Where nothing is stored yet."""
    return folder / f"{name}.db" if kind == FILE else STORES.pool.server.address(STORES.pool.new(TEMPLATE))


def fill(place: Place, *units: Unit) -> None:
    """Store units, by default some with unusual texts."""

    async def store() -> None:
        database = open_database(place)
        try:
            for unit in units or (*nasty_units(), *listed_units()):
                assert isinstance(await database.submit(unit), Committed)
        finally:
            database.close()

    asyncio.run(store())


def many_events(count: int, *, aggregates: int = 10, size: int = 10) -> list[Unit]:
    """Units with that many events in all."""
    data = '{"text":"' + "x" * size + '"}'
    each = count // aggregates
    return [
        Unit(
            f"agg_{number:04}",
            events=tuple(NewEvent(f"evt_{number}_{at}", "t.1", data, None, ()) for at in range(start, start + 500)),
        )
        for number in range(aggregates)
        for start in range(0, each, 500)
    ]


def dead(owner: OwnerRow) -> bool | None:
    return False


def transfer(
    source: Place,
    target: Place,
    *,
    source_lives: Callable[[OwnerRow], bool | None] = dead,
    target_lives: Callable[[OwnerRow], bool | None] = dead,
    told: Callable[[Progress], None] = lambda progress: None,
    changed: Callable[[TransferStore, TransferStore], None] = lambda source, target: None,
) -> Transferred:
    """`changed` may replace parts of the stores before the transfer begins."""
    with ExitStack() as stack:
        ours = open_source(source)
        stack.callback(ours.close)
        theirs = open_target(target)
        stack.callback(theirs.close)
        changed(ours, theirs)
        return Transfer(ours, theirs, source_lives=source_lives, target_lives=target_lives, told=told).run()


def content(place: Place) -> dict[str, list[Row]]:
    """All rows that are copied, events by aggregate and sequence."""
    store = open_source(place)
    try:
        found = {table.name: list(store.rows(table, store.columns(table.name))) for table in COPIED}
        columns = store.columns(EVENTS)
        events = (event.row for event in store.events(columns))
        order = (columns.index("aggregate_id"), columns.index("seq"))
        found[EVENTS] = sorted(events, key=lambda row: tuple(str(row[at]).zfill(9) for at in order))
        return found
    finally:
        store.close()


@contextmanager
def opened(place: Place) -> Iterator[Any]:
    database = open_database(place)
    try:
        yield database
    finally:
        database.close()
