"""Nobody writes to a store that is being transferred, and nobody uses an incomplete copy."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import apsw
import pytest
from tests.core.database.transfer.support import (
    BOTH,
    PAIRS,
    SERVERS,
    content,
    fill,
    many_events,
    new_place,
    opened,
    transfer,
)

from holdfast.core.database.errors import StorageTransferred, TransferRefused
from holdfast.core.database.opening import open_database
from holdfast.core.database.place import Place
from holdfast.core.database.transfer import transfer as transfers
from holdfast.core.database.transfer.mark import SOURCE, Mark
from holdfast.core.database.transfer.opening import open_marked, open_source, open_target
from holdfast.core.database.transfer.store import OwnerRow, TransferStore
from holdfast.core.database.transfer.transfer import Transfer, cancel
from holdfast.core.database.unit import NewEvent, Statement, Unit

BEAT = Statement(
    "owner.announce",
    {
        "id": "own_1",
        "pid": 4711,
        "beat": 1,
        "number": None,
        "name": "north",
        "address": None,
        "version": "1",
        "started": 1,
        "roots": None,
        "room": None,
    },
)


class Stop(Exception):
    """Ends a transfer where a test wants it."""


def stop_at_events(source: Any, target: Any) -> None:
    def stop(*_: Any) -> Any:
        raise Stop

    source.events = stop


def stop_before_the_end(source: Any, target: Any) -> None:
    def stop(*_: Any) -> Any:
        raise Stop

    source.complete = stop


def begin(source: Place, target: Place) -> None:
    """A transfer that ends in the middle."""
    with pytest.raises(Stop):
        transfer(source, target, changed=stop_at_events)


def event(id: str) -> Unit:
    return Unit("agg_new", events=(NewEvent(id, "t.1", "{}", None, ()),))


def cancelled(place: Place) -> Mark | None:
    store = open_marked(place)
    try:
        return cancel(store)
    finally:
        store.close()


def lives(owner: OwnerRow) -> bool | None:
    return True


@pytest.mark.parametrize(("source_kind", "target_kind"), PAIRS)
def test_both_stores_refuse_to_be_opened_until_the_copy_is_complete(
    source_kind: str, target_kind: str, tmp_path: Path
) -> None:
    """STO-161, STO-163, STO-165: the source afterwards too."""
    source, target = new_place(source_kind, tmp_path, "a"), new_place(target_kind, tmp_path, "b")
    fill(source, *many_events(500))
    begin(source, target)
    with pytest.raises(StorageTransferred, match=r"is read-only: its Sessions are being moved to .*--cancel"):
        open_database(source)
    with pytest.raises(StorageTransferred, match=r"is an incomplete copy of .*holdfast migrate"):
        open_database(target)
    transfer(source, target)
    with pytest.raises(StorageTransferred, match=r"is read-only: its Sessions were moved to .*HOLDFAST_DATABASE"):
        open_database(source)
    with opened(target):
        """The copy can be used."""


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("complete", [False, True])
def test_a_process_that_opened_the_source_before_cannot_write(kind: str, complete: bool, tmp_path: Path) -> None:
    """STO-161: neither events nor anything else, nor can it become an owner."""
    source, target = new_place(kind, tmp_path, "a"), new_place(kind, tmp_path, "b")
    fill(source, event("evt_1"))
    before = content(source)

    async def attempt() -> None:
        with opened(source) as database:
            await database.submit(Unit("agg_new", before=()))
            await asyncio.to_thread(transfer if complete else begin, source, target)
            for unit in (event("evt_2"), Unit("own_1", local=(BEAT,))):
                with pytest.raises(StorageTransferred, match="is read-only: its Sessions"):
                    await database.submit(unit)
            assert await database.fetch("event.head", {"aggregate_id": "agg_new"}) == [(0, None)]

    asyncio.run(attempt())
    assert content(source) == before


@pytest.mark.parametrize("kind", BOTH)
def test_a_process_that_opened_the_target_before_cannot_write(kind: str, tmp_path: Path) -> None:
    """STO-165: until the copy is complete."""
    source, target = new_place(kind, tmp_path, "a"), new_place(kind, tmp_path, "b")
    fill(source, event("evt_1"))

    async def attempt() -> None:
        with opened(target) as database:
            await asyncio.to_thread(begin, source, target)
            with pytest.raises(StorageTransferred, match="is an incomplete copy"):
                await database.submit(event("evt_2"))
            await asyncio.to_thread(transfer, source, target)
            assert (await database.submit(event("evt_2"))).last == 1

    asyncio.run(attempt())


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("end", ["source", "target"])
def test_it_does_not_begin_while_a_process_uses_a_store(kind: str, end: str, tmp_path: Path) -> None:
    """STO-162: nothing is marked then."""
    places = {"source": new_place(kind, tmp_path, "a"), "target": new_place(kind, tmp_path, "b")}
    alive: Any = {f"{end}_lives": lives}
    fill(places[end], Unit("own_1", local=(BEAT,)))
    fill(places["source"], event("evt_1"))
    with pytest.raises(TransferRefused, match=r"is in use by the server north \(process 4711\); stop it first"):
        transfer(places["source"], places["target"], **alive)
    for place in places.values():
        with opened(place):
            """As before."""
    transfer(places["source"], places["target"])


def test_a_process_that_cannot_be_judged_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-162: a database server that has just started does not know who lives."""
    monkeypatch.setattr(transfers, "LOOK_SECONDS", 0.0)
    fill(tmp_path / "a.db", Unit("own_1", local=(BEAT,)))
    answers = [None, None, False]
    transfer(tmp_path / "a.db", tmp_path / "b.db", source_lives=lambda owner: answers.pop(0))
    monkeypatch.setattr(transfers, "UNKNOWN_SECONDS", 0.0)
    assert cancelled(tmp_path / "a.db")
    with pytest.raises(TransferRefused, match="cannot tell whether the server north"):
        transfer(tmp_path / "a.db", tmp_path / "c.db", source_lives=lambda owner: None)


@pytest.mark.parametrize("kind", BOTH)
def test_a_process_that_announces_itself_meanwhile_is_seen(kind: str, tmp_path: Path) -> None:
    """STO-162: the look waits for a transaction that is under way."""
    source, target = new_place(kind, tmp_path, "a"), new_place(kind, tmp_path, "b")
    fill(source, event("evt_1"))
    looked = threading.Event()
    outcome: list[BaseException | None] = []

    def attempt() -> None:
        try:
            transfer(source, target, source_lives=lives, changed=lambda *_: looked.set())
            outcome.append(None)
        except TransferRefused as error:
            outcome.append(error)

    thread = threading.Thread(target=attempt)
    with uncommitted(source, "insert into owner (id, pid, beat, name) values ('own_1', 4711, 1, 'north')"):
        thread.start()
        assert looked.wait(30)
        thread.join(0.3)
        assert thread.is_alive()
    thread.join()
    assert "process 4711" in str(outcome[0])


class uncommitted:
    """A change of another process whose transaction ends with the block."""

    def __init__(self, place: Place, sql: str) -> None:
        self._connection: Any
        if isinstance(place, Path):
            self._connection = apsw.Connection(str(place))
            self._connection.execute("begin immediate")
        else:
            import psycopg

            self._connection = psycopg.connect(place)
        self._connection.execute(sql)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._connection.execute("commit")
        self._connection.close()


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("complete", [False, True])
def test_a_mark_can_be_taken_back(kind: str, complete: bool, tmp_path: Path) -> None:
    """STO-164: the store is used as before, with nothing of the mark left that could refuse a change."""
    source, target = new_place(kind, tmp_path, "a"), new_place(kind, tmp_path, "b")
    fill(source, event("evt_1"))
    (transfer if complete else begin)(source, target)
    found = cancelled(source)
    assert found is not None
    assert found.role == SOURCE
    assert cancelled(source) is None
    fill(source, event("evt_2"), Unit("own_1", local=(BEAT,)))
    assert len(content(source)["event"]) == 2


@pytest.mark.parametrize("kind", BOTH)
def test_an_incomplete_copy_can_be_emptied(kind: str, tmp_path: Path) -> None:
    """STO-164."""
    source, target = new_place(kind, tmp_path, "a"), new_place(kind, tmp_path, "b")
    fill(source, *many_events(500))
    begin(source, target)
    assert cancelled(target) is not None
    assert not any(rows for name, rows in content(target).items() if name != "budget_revision")
    assert content(target)["budget_revision"] == [(0, 0)]
    fill(target, event("evt_1"))


@pytest.mark.parametrize("kind", BOTH)
def test_a_copy_begins_anew_after_the_source_was_used_again(kind: str, tmp_path: Path) -> None:
    """STO-166: what was copied before may be out of date."""
    source, target = new_place(kind, tmp_path, "a"), new_place(kind, tmp_path, "b")
    fill(source, *many_events(500))
    begin(source, target)
    cancelled(source)
    fill(source, event("evt_new"))
    done = transfer(source, target)
    assert done.copied == done.rows
    assert content(target) == content(source)


@pytest.mark.parametrize("kind", BOTH)
def test_two_at_once_are_refused(kind: str, tmp_path: Path) -> None:
    """STO-170, STO-164: on the source and on the target; nor is a mark taken back meanwhile."""
    source, target, other = (new_place(kind, tmp_path, name) for name in "abc")
    fill(source, event("evt_1"))
    refused: list[str] = []

    def meanwhile(ours: TransferStore, theirs: TransferStore) -> None:
        copy = theirs.settle

        def attempt() -> None:
            for attempted in (
                lambda: transfer(source, target),
                lambda: transfer(source, other),
                lambda: transfer(other, target),
                lambda: cancelled(source),
            ):
                with pytest.raises(TransferRefused) as caught:
                    attempted()
                refused.append(str(caught.value))
            copy()

        theirs.settle = attempt  # type: ignore[method-assign]

    transfer(source, target, changed=meanwhile)
    assert len(refused) == 4
    assert all("another `holdfast migrate` works on" in text for text in refused)


@pytest.mark.parametrize("kind", BOTH)
def test_stores_that_cannot_be_used_are_refused_and_left_alone(kind: str, tmp_path: Path) -> None:
    """STO-170."""
    source, target, other, filled = (new_place(kind, tmp_path, name) for name in "abcd")
    fill(source, event("evt_1"))
    fill(filled, event("evt_f"))

    def refused(source: Place, target: Place) -> str:
        with pytest.raises(TransferRefused) as caught:
            transfer(source, target)
        return str(caught.value)

    assert "are the same store" in refused(source, source)
    assert "has Sessions already (its table event is not empty)" in refused(source, filled)
    with opened(source), opened(filled):
        """Neither has a mark."""
    begin(source, target)
    assert "are being moved to" in refused(source, other)
    assert "is an incomplete copy" in refused(target, other)
    assert "is an incomplete copy" in refused(filled, target)
    assert "are being moved to" in refused(filled, source)
    transfer(source, target)
    assert "were moved to" in refused(source, other)
    assert "were moved to" in refused(filled, source)
    assert "has Sessions already" in refused(filled, target)
    done = transfer(source, target)
    assert done.copied == 0
    transfer(target, other)
    assert content(other) == content(source)


@SERVERS
def test_the_same_database_is_recognised_by_another_address(tmp_path: Path) -> None:
    """STO-170: a target may be written in several ways, also when a transfer goes on."""
    from tests.stores.stores import STORES

    server = STORES.pool.server
    name = STORES.pool.new()
    fill(server.address(name), event("evt_1"))
    with pytest.raises(TransferRefused, match="are the same store"):
        transfer(server.address(name), server.address(name, tcp=True))
    other = STORES.pool.new()
    begin(server.address(name), server.address(other))
    transfer(server.address(name), server.address(other, tcp=True))
    transfer(server.address(other), server.address(other) + "&schema=second")


def test_a_link_to_the_source_is_the_source(tmp_path: Path) -> None:
    """STO-170."""
    fill(tmp_path / "a.db", event("evt_1"))
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    with pytest.raises(TransferRefused, match="are the same store"):
        transfer(tmp_path / "a.db", tmp_path / "link.db")


def test_a_source_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """STO-170."""
    with pytest.raises(TransferRefused, match="there is no database"):
        transfer(tmp_path / "none.db", tmp_path / "b.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", BOTH)
def test_an_end_between_the_two_marks_is_made_up_for(kind: str, tmp_path: Path) -> None:
    """STO-166: the target is complete, the source does not know yet."""
    source, target = new_place(kind, tmp_path, "a"), new_place(kind, tmp_path, "b")
    fill(source, event("evt_1"))
    with pytest.raises(Stop):
        transfer(source, target, changed=stop_before_the_end)
    with opened(target):
        """Complete."""
    fill(target, event("evt_later"))
    assert transfer(source, target).copied == 0
    with pytest.raises(StorageTransferred, match="were moved to"):
        open_database(source)


@pytest.mark.parametrize("kind", BOTH)
def test_a_target_that_cannot_be_marked_leaves_the_source_as_it_was(kind: str, tmp_path: Path) -> None:
    """STO-170."""
    source, target = new_place(kind, tmp_path, "a"), new_place(kind, tmp_path, "b")
    fill(source, event("evt_1"))
    ours, theirs = open_source(source), cast("Any", open_target(target))

    def fail(*_: Any) -> None:
        raise Stop

    theirs.mark = fail
    with pytest.raises(Stop):
        Transfer(ours, theirs, source_lives=lives, target_lives=lives).run()
    ours.close()
    theirs.close()
    fill(source, event("evt_2"))


def test_nothing_stays_beside_the_files(tmp_path: Path) -> None:
    fill(tmp_path / "a.db", event("evt_1"))
    transfer(tmp_path / "a.db", tmp_path / "b.db")
    assert not list(tmp_path.glob("*.transfer"))
