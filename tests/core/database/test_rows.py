"""Rows as structs."""

from __future__ import annotations

import pytest
from tests.core.database.units import AGGREGATE, unit

from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.rows import row_mapper
from holdfast.core.event.stored_event import EventRow, Head
from holdfast.schema.frozen import Frozen
from holdfast.schema.model import ModelRef
from holdfast.schema.todo import Todo

pytestmark = pytest.mark.anyio


class Sample(Frozen):
    name: str
    count: int | None
    flag: bool
    maybe: bool | None
    model: ModelRef | None


COLUMNS = ["name", "count", "flag", "maybe", "model"]
MODEL = ModelRef(id="m", provider_id="p")


def test_columns_become_the_fields_of_their_names() -> None:
    """Integers become booleans and JSON becomes structs where the field says so; null stays None."""
    read = row_mapper(Sample, COLUMNS)
    rows = [("a", 1, 0, 1, '{"id":"m","providerID":"p"}'), ("b", None, 1, None, None)]
    assert read(rows) == [Sample("a", 1, False, True, MODEL), Sample("b", None, True, None, None)]
    assert read([]) == []


def test_the_order_of_columns_does_not_matter() -> None:
    """Columns are found by name."""
    assert row_mapper(Head, ["owner_id", "seq"])([("own_a", 3)]) == [Head(3, "own_a")]
    assert row_mapper(Head, ["seq", "owner_id"])([(3, "own_a")]) == [Head(3, "own_a")]


def test_records_take_their_fields_by_keyword() -> None:
    """Public records are built like internal ones."""
    todo = Todo(content="c", status="s", priority="p")
    assert row_mapper(Todo, ["content", "status", "priority"])([("c", "s", "p")]) == [todo]


@pytest.mark.parametrize("columns", [["seq"], ["seq", "owner_id", "more"], ["seq", "owner"], ["seq", "seq"]])
def test_columns_that_are_not_the_fields_are_refused(columns: list[str]) -> None:
    """A query and its struct cannot drift apart unnoticed."""
    with pytest.raises(TypeError, match="Head has the fields"):
        row_mapper(Head, columns)


async def test_both_ways_of_reading_give_structs(database: SqliteDatabase) -> None:
    """On the loop and in the reader's thread, with rows and without."""
    key = {"aggregate_id": AGGREGATE}
    assert await database.fetch("event.head", key, into=Head) == []
    await database.submit(unit("evt_1"))
    assert await database.fetch("event.head", key, into=Head) == [Head(0, None)]
    assert await database.fetch_large("event.head", key, into=Head) == [Head(0, None)]
    (row,) = await database.fetch("event.page", {**key, "after": -1, "limit": 5}, into=EventRow)
    assert (row.seq, row.id, type(row.data)) == (0, "evt_1", bytes)
