"""A server that goes away, refuses or limits in the middle of a transfer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.core.database.postgres.proxy import Proxy
from tests.core.database.transfer.support import content, fill, many_events, transfer
from tests.stores.pool import TEMPLATE
from tests.stores.stores import STORES

from holdfast.core.database.errors import StorageBusy, StorageError, StorageReadOnly, StorageUnavailable
from holdfast.core.database.opening import open_database
from holdfast.core.database.postgres import transfer_store
from holdfast.core.database.transfer.opening import open_target
from holdfast.core.database.transfer.store import Place
from holdfast.core.database.transfer.transfer import Progress

pytestmark = pytest.mark.store("postgres", reason="connections are PostgreSQL's")


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy(STORES.pool.server.port)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("phase", ["copying", "verifying"])
@pytest.mark.parametrize("end", ["source", "target"])
def test_a_lost_connection_is_told_and_gone_on_with(end: str, phase: str, tmp_path: Path, proxy: Proxy) -> None:
    """STO-175, STO-166: at either end, in either phase."""
    name = STORES.pool.new(TEMPLATE)
    near, far = STORES.pool.server.address(name), proxy.address(name)
    source, target = (near, tmp_path / "b.db") if end == "source" else (tmp_path / "a.db", near)
    fill(source, *many_events(5_000))

    def cut(progress: Progress) -> None:
        if progress.phase == phase and progress.table == "event":
            proxy.cut()

    with pytest.raises((StorageUnavailable, StorageError), match=r"connection|server"):
        transfer(far if end == "source" else source, far if end == "target" else target, told=cut)
    done = transfer(source, target)
    assert done.copied < done.rows
    assert content(target) == content(source)


def test_a_server_that_takes_no_writes_is_no_target_and_no_source(tmp_path: Path) -> None:
    """STO-175: nor is the other store marked."""
    pool = STORES.pool
    name = pool.new(TEMPLATE)
    address = pool.server.address(name)
    fill(tmp_path / "a.db", *many_events(500))
    pool._admin.execute(f"alter database {name} set default_transaction_read_only = on")
    for source, target in ((tmp_path / "a.db", address), (address, tmp_path / "b.db")):
        with pytest.raises(StorageReadOnly):
            transfer(source, target)
    open_database(tmp_path / "a.db").close()


def test_a_transaction_that_does_not_end_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-162, STO-175: somebody changes the source, and keeps that open."""
    import psycopg

    monkeypatch.setitem(transfer_store.SETTINGS, "lock_timeout", "200")
    address = STORES.pool.server.address(STORES.pool.new(TEMPLATE))
    fill(address, *many_events(500))
    with psycopg.connect(address) as other:
        other.execute("delete from todo")
        with pytest.raises(StorageBusy, match="stayed locked by another process"):
            transfer(address, tmp_path / "b.db")
        other.rollback()
    open_database(address).close()
    transfer(address, tmp_path / "b.db")


def test_settings_of_the_role_do_not_end_a_long_copy() -> None:
    """STO-175: limits on the time of statements are for short ones."""
    pool = STORES.pool
    name = pool.new(TEMPLATE)
    pool._admin.execute(f"alter database {name} set statement_timeout = '20s'")
    store: Any = open_target(pool.server.address(name))
    assert store._all("show statement_timeout") == [("0",)]
    store.close()


def test_a_text_that_is_no_utf_8_is_told(tmp_path: Path) -> None:
    """STO-175: and the group is undone, so that the store can be used on."""
    address = STORES.pool.server.address(STORES.pool.new(TEMPLATE))
    store: Any = open_target(address)
    for text in (b"\xff", "\ud800"):
        with pytest.raises(StorageError, match="a text is not valid UTF-8"):
            store.write("project", ["id", "worktree", "time_created"], [("a", "/", 1), ("b", text, 1)], Place((), 1))
    assert store.count("project") == 0
    store.close()


def test_a_row_that_the_server_cannot_store_is_told(tmp_path: Path) -> None:
    """STO-175: with the reason of the server; the group is undone."""
    pool = STORES.pool
    name = pool.new(TEMPLATE)
    address = pool.server.address(name)
    fill(tmp_path / "a.db", *many_events(2_500, aggregates=5))

    def refuse(source: Any, target: Any) -> None:
        target._all("alter table event add constraint small check (seq <> 300 or aggregate_id <> 'agg_0004')")

    with pytest.raises(StorageError, match='violates check constraint "small"'):
        transfer(tmp_path / "a.db", address, changed=refuse)
    done = transfer(tmp_path / "a.db", address, changed=lambda _, target: drop(target))
    assert done.copied == 500
    assert content(address) == content(tmp_path / "a.db")


def drop(target: Any) -> None:
    target._all("alter table event drop constraint small")
