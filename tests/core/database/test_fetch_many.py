"""Reads that are handed over together."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.core.database.units import unit

from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.errors import StorageClosed
from holdfast.core.database.read import Read
from holdfast.core.database.reader import VALUE_BYTES
from holdfast.schema.frozen import Frozen

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.store("sqlite", reason="the reader of SQLite"),
]


class Head(Frozen):
    seq: int
    owner_id: str | None


def head(aggregate: str) -> Read:
    return Read("event.head", {"aggregate_id": aggregate}, Head)


def page(aggregate: str) -> Read:
    return Read("event.page", {"aggregate_id": aggregate, "after": -1, "limit": 9})


async def test_reads_are_answered_in_their_order(database: SqliteDatabase) -> None:
    """STO-080"""
    await database.submit(unit("evt_0", aggregate="ses_a"))
    await database.submit(unit("evt_1", aggregate="ses_a"))
    found = await database.fetch_many(head("ses_a"), head("ses_none"), page("ses_a"))
    assert found[:2] == [[Head(1, None)], []]
    assert found[2] == await database.fetch("event.page", page("ses_a").params)
    assert await database.fetch_many() == []


async def test_only_what_is_large_is_read_outside_the_loop(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-080, EVT-072"""
    far, threads = database._reader._fetch_far, list[str]()

    def noted(name: str, params: dict[str, str], into: Any) -> object:
        threads.append(threading.current_thread().name)
        return far(name, params, into)

    monkeypatch.setattr(database._reader, "_fetch_far", noted)
    await database.submit(unit("evt_0", aggregate="ses_a", size=VALUE_BYTES))
    before, large, after = await database.fetch_many(head("ses_a"), page("ses_a"), head("ses_a"))
    assert before == after == [Head(0, None)]
    assert len(large[0][3]) > VALUE_BYTES
    assert [name.rpartition("_")[0] for name in threads] == ["holdfast-reader"]


async def test_reads_of_a_closed_database_are_refused(database: SqliteDatabase) -> None:
    """STO-080"""
    database.close()
    with pytest.raises(StorageClosed):
        await database.fetch_many(head("ses_a"), page("ses_a"))
