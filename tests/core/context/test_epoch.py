"""Context Epochs: what is stored, when, and together with what."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import ManualClock
from tests.core.context.conftest import ANYTHING, Drained, Fact, of, open_lease
from tests.core.database.conftest import FaultyDisk
from tests.core.event.samples import ENSURE_PROJECT, SES, record

from holdfast.core.clock import Ids
from holdfast.core.context.epoch import Epochs, SourceState
from holdfast.core.context.errors import ContextContention, ContextSnapshotDecodeError, InitializationBlocked
from holdfast.core.context.metrics import Metrics
from holdfast.core.context.source import UNAVAILABLE, JsonCodec
from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.errors import Fenced, StorageError
from holdfast.core.event.log import EventLog
from holdfast.core.session.liveness import FileLiveness
from holdfast.core.session.ownership import Ownership
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.core.session.store import SessionStore
from holdfast.schema.location import Location
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.session_event import (
    CompactionEnded,
    CompactionStarted,
    ContextUpdated,
    Moved,
    SessionCreated,
    Synthetic,
)

pytestmark = pytest.mark.anyio

EPOCH = """
select baseline.content, snapshot.content, baseline_seq, revision from session_context_epoch
join context_text baseline on baseline.id = baseline_id join context_text snapshot on snapshot.id = snapshot_id
"""


async def note(drained: Drained, text: str = "x") -> int:
    payload = Synthetic(timestamp=1, session_id=SES, message_id=f"msg_{text}", text=text)
    return (await drained.log.publish(payload)).last


async def compact(drained: Drained, name: str = "c") -> int:
    ended = CompactionEnded(
        timestamp=1, session_id=SES, message_id=f"msg_{name}", reason="auto", text="summary", recent=""
    )
    return (await drained.log.publish(ended)).last


# -- initialize ----------------------------------------------------------------------------------------------------


async def test_the_first_epoch_is_stored_whole(drained: Drained) -> None:
    """CTX-080, CTX-082, CTX-084, EVT-054, EVT-056: one row at the latest sequence, and no message."""
    latest = await note(drained)
    epoch = await drained.initialize(Fact("core/a"), Fact("core/b", removable=False))
    assert drained.rows(EPOCH) == [
        (
            "a is v0\n\nb is v0",
            '{"core/a":{"value":"v0","removed":"Removed a"},"core/b":{"value":"v0"}}',
            latest,
            0,
        )
    ]
    assert (epoch.baseline, epoch.baseline_seq, epoch.revision) == ("a is v0\n\nb is v0", latest, 0)
    assert drained.told() == []
    assert await drained.log.latest(SES) == latest


async def test_a_session_without_events_stands_at_minus_one(drained: Drained) -> None:
    """CTX-082: the row is written although the aggregate has no sequence."""
    await drained.log.remove(SES)
    assert (await drained.initialize(Fact("core/a"))).baseline_seq == -1


async def test_a_blocked_initialization_stores_nothing_and_can_be_repeated(drained: Drained, metrics: Metrics) -> None:
    """CTX-083, CTX-031: no row and no commit; later the same call succeeds."""
    fact, lost = Fact("core/a"), Fact("core/lost", UNAVAILABLE)
    with pytest.raises(InitializationBlocked):
        await drained.initialize(fact, lost)
    assert drained.lease.commits == 0
    assert await drained.epochs.load(SES) is None
    assert metrics.read()["context.initialize.blocked"]["core/lost"]["times"] == 1
    lost.value = "back"
    assert (await drained.initialize(fact, lost)).baseline == "a is v0\n\nlost is back"


async def test_the_first_of_two_concurrent_baselines_is_kept(drained: Drained, metrics: Metrics) -> None:
    """CTX-093: initialize inserts only if absent; the loser gets what is stored, and it is counted."""
    first = await drained.initialize(Fact("core/a", "first"))
    second = await drained.initialize(Fact("core/a", "second"))
    assert second.baseline == first.baseline == "a is first"
    assert metrics.read()["context.contention"][""]["times"] == 1


async def test_the_baseline_is_the_same_bytes_after_a_restart(drained: Drained, ids: Ids, clock: ManualClock) -> None:
    """CTX-081, CTX-003: whatever the producers would say now."""
    fact = Fact("core/a", "  spaces \u2028 and ünï\n\n")
    epoch = await drained.initialize(fact)
    again = Epochs(drained.database, ids, clock, Metrics())
    loaded = await again.load(SES)
    assert loaded is not None
    assert loaded.baseline == epoch.baseline
    fact.value = "other"
    prepared = await again.prepare(loaded, of(fact), drained.lease)
    assert prepared.baseline == epoch.baseline


# -- reconcile -----------------------------------------------------------------------------------------------------


async def test_nothing_changed_costs_no_commit_and_no_read(drained: Drained, monkeypatch: pytest.MonkeyPatch) -> None:
    """CTX-088, CTX-049, CTX-077: the same object comes back and the database is not asked."""
    facts = [Fact(f"core/{index}") for index in range(5)]
    epoch = await drained.initialize(*facts)
    before = drained.lease.commits

    read: list[object] = []
    fetch = drained.database.fetch

    async def noted(name: str, *given: Any, **more: Any) -> Any:
        if not name.startswith("event."):  # a look for commits of other processes, which comes with the clock
            read.append(name)
        return await fetch(name, *given, **more)

    monkeypatch.setattr(drained.database, "fetch", noted)
    assert await drained.prepare(epoch, *facts) is epoch
    assert read == []
    assert drained.lease.commits == before


async def test_a_change_is_one_message_and_one_snapshot_in_one_commit(drained: Drained, clock: ManualClock) -> None:
    """CTX-086, CTX-087, CTX-095, CTX-085, EVT-056, CTX-004: event, message and snapshot; the exact combined text only,
    after what was there before; the baseline and its sequence stay."""
    a, b, gone = Fact("core/a"), Fact("core/b"), Fact("core/gone")
    epoch = await drained.initialize(a, gone)
    before = await note(drained, "prompt")
    commits = drained.lease.commits
    a.value = "v1"
    prepared = await drained.prepare(epoch, a, b)
    assert drained.lease.commits == commits + 1
    text = "a is now v1\n\nb is v0\n\nRemoved gone"
    ((seq, kind, data),) = drained.rows("select seq, type, data from event where seq > ?", before)
    assert (seq, kind) == (before + 1, "session.next.context.updated.1")
    stored = msgspec.json.decode(data)
    assert set(stored) == {"sessionID", "messageID", "timestamp", "text"}
    assert (stored["sessionID"], stored["timestamp"], stored["text"]) == (SES, clock.now(), text)
    message = (await SessionStore(drained.database).message(SES, stored["messageID"])).decode()
    assert msgspec.to_builtins(message)["type"] == "system"
    assert drained.told() == [text]
    ((_, snapshot, baseline_seq, revision),) = drained.rows(EPOCH)
    assert list(msgspec.json.decode(snapshot)) == ["core/a", "core/b"]
    assert (baseline_seq, revision) == (epoch.baseline_seq, 1)
    loaded = await drained.load()
    assert loaded.snapshot.encode() == prepared.snapshot.encode()
    assert loaded.replace(snapshot=prepared.snapshot) == prepared
    assert drained.rows("select seq, keys from session_context_change") == [(seq, '["core/a","core/b","core/gone"]')]


async def test_an_admitted_update_is_not_said_again(drained: Drained) -> None:
    """CTX-096: a turn that fails afterwards finds it in history; the next boundary has nothing to add."""
    fact = Fact("core/a")
    epoch = await drained.initialize(fact)
    fact.value = "v1"
    epoch = await drained.prepare(epoch, fact)
    assert await drained.prepare(epoch, fact) is epoch
    assert drained.told() == ["a is now v1"]


async def test_replaying_the_update_does_not_repeat_it(drained: Drained, tmp_path: Path) -> None:
    """CTX-087, CTX-094, CTX-080: a rebuild keeps one message and leaves the epoch alone."""
    fact = Fact("core/a")
    epoch = await drained.initialize(fact)
    fact.value = "v1"
    await drained.prepare(epoch, fact)
    rows = drained.rows(EPOCH)
    await drained.log.rebuild(SES)
    assert drained.told() == ["a is now v1"]
    assert drained.rows(EPOCH) == rows


async def test_a_lost_epoch_begins_anew_and_older_messages_leave_history(drained: Drained) -> None:
    """CTX-094, CTX-092, CTX-091: the newer baseline covers them; they stay in the message list."""
    fact = Fact("core/a")
    epoch = await drained.initialize(fact)
    fact.value = "v1"
    await drained.prepare(epoch, fact)
    drained.rows("delete from session_context_epoch")
    assert (await drained.initialize(fact)).baseline == "a is v1"
    store = SessionStore(drained.database)
    assert [item.decode() for item in await store.active_history(SES)] == []
    assert drained.told() == ["a is now v1"]


# -- replacing -----------------------------------------------------------------------------------------------------


async def test_an_incompatible_transition_replaces_without_a_message(drained: Drained) -> None:
    """CTX-089, CTX-090, CTX-113, EVT-056: baseline, snapshot and sequence in one write at the latest sequence."""
    a, fixed = Fact("core/a"), Fact("core/fixed", removable=False)
    epoch = await drained.initialize(a, fixed)
    latest = await note(drained)
    commits = drained.lease.commits
    prepared = await drained.prepare(epoch, a)
    assert drained.lease.commits == commits + 1
    assert drained.rows(EPOCH) == [("a is v0", '{"core/a":{"value":"v0","removed":"Removed a"}}', latest, 1)]
    assert (prepared.baseline, prepared.baseline_seq) == ("a is v0", latest)
    assert drained.told() == []
    assert await drained.log.latest(SES) == latest


async def test_a_completed_compaction_starts_a_new_baseline(drained: Drained) -> None:
    """CTX-103, CTX-090, CTX-092: from the current context; earlier system messages leave model history."""
    fact = Fact("core/a")
    epoch = await drained.initialize(fact)
    fact.value = "v1"
    epoch = await drained.prepare(epoch, fact)
    compaction = await compact(drained)
    latest = await note(drained)
    epoch = await drained.prepare(epoch, fact, compaction_seq=compaction)
    assert (epoch.baseline, epoch.baseline_seq) == ("a is v1", latest)
    assert drained.told() == ["a is now v1"]
    history = [item.decode() for item in await SessionStore(drained.database).active_history(SES)]
    assert [msgspec.to_builtins(item)["type"] for item in history] == ["compaction", "synthetic"]
    assert await drained.prepare(epoch, fact, compaction_seq=compaction) is epoch


async def test_a_compaction_replaces_the_baseline_once(drained: Drained) -> None:
    """CTX-103: also while its end is the newest event, so that the new baseline stands at the same sequence."""
    fact = Fact("core/a")
    epoch = await drained.initialize(fact)
    compaction = await compact(drained)
    epoch = await drained.prepare(epoch, fact, compaction_seq=compaction)
    assert (epoch.baseline_seq, epoch.revision) == (compaction, 1)
    commits = drained.lease.commits
    for _ in range(2):
        epoch = await drained.prepare(epoch, fact, compaction_seq=compaction)
    assert (epoch.revision, drained.lease.commits) == (1, commits), "replaced again by the same compaction"


async def test_a_compaction_that_only_started_changes_nothing(drained: Drained) -> None:
    """CTX-103: the sequence of the last completed one counts."""
    fact = Fact("core/a")
    epoch = await drained.initialize(fact)
    await drained.log.publish(CompactionStarted(timestamp=1, session_id=SES, message_id="msg_c", reason="auto"))
    assert await drained.prepare(epoch, fact, compaction_seq=-1) is epoch


async def test_while_replacement_is_blocked_others_are_still_told(drained: Drained, metrics: Metrics) -> None:
    """CTX-104, CTX-088, CTX-091, CTX-027: the old baseline stays, updates are admitted from the same observation, and
    every following boundary tries again."""
    a, lost = Fact("core/a"), Fact("core/lost")
    epoch = await drained.initialize(a, lost)
    compaction = await compact(drained)
    lost.lose()
    a.value = "v1"
    loads = a.loads
    blocked = await drained.prepare(epoch, a, lost, compaction_seq=compaction)
    assert a.loads == loads + 1
    assert (blocked.baseline, blocked.baseline_seq) == (epoch.baseline, epoch.baseline_seq)
    assert drained.told() == ["a is now v1"]
    history = [item.decode() for item in await SessionStore(drained.database).active_history(SES)]
    assert [msgspec.to_builtins(item)["type"] for item in history] == ["compaction", "system"]
    again = await drained.prepare(blocked, a, lost, compaction_seq=compaction)
    assert again is blocked
    assert metrics.read()["context.replace.blocked"]["core/lost"]["times"] == 2
    lost.value = "back"
    ready = await drained.prepare(again, a, lost, compaction_seq=compaction)
    assert ready.baseline == "a is v1\n\nlost is back"
    assert drained.told() == ["a is now v1"]


async def test_a_move_clears_the_epoch_in_its_own_transaction(drained: Drained) -> None:
    """CTX-106, CTX-006: the destination begins a complete baseline; a turn still preparing gives up."""
    fact = Fact("core/a")
    epoch = await drained.initialize(fact)
    await drained.log.publish(Moved(timestamp=1, session_id=SES, location=Location(directory="/elsewhere")))
    assert await drained.epochs.load(SES) is None
    fact.value = "v1"
    with pytest.raises(ContextContention):
        await drained.prepare(epoch, fact)
    assert drained.told() == []
    assert (await drained.initialize(fact)).baseline == "a is v1"


# -- offers --------------------------------------------------------------------------------------------------------


async def test_an_offer_lasts_as_long_as_its_epoch(drained: Drained) -> None:
    """MCP-200, MCP-202: it is asked for when an epoch begins and not before; an update keeps it, a replacement renews
    it, and a move ends it."""
    asked: list[str] = []

    def offer() -> str:
        asked.append("")
        return f"offer {len(asked)}"

    fact = Fact("core/a")
    assert await drained.epochs.offer(SES) == ""
    epoch = await drained.epochs.initialize(SES, of(fact), drained.lease, offer=offer)
    assert epoch.offer == await drained.epochs.offer(SES) == "offer 1"
    fact.value = "v1"
    epoch = await drained.epochs.prepare(epoch, of(fact), drained.lease, offer=offer)
    assert (epoch.offer, await drained.epochs.offer(SES), len(asked)) == ("offer 1", "offer 1", 1)
    compaction = await compact(drained)
    epoch = await drained.epochs.prepare(epoch, of(fact), drained.lease, offer=offer, compaction_seq=compaction)
    assert epoch.offer == await drained.epochs.offer(SES) == "offer 2"
    await drained.log.publish(Moved(timestamp=1, session_id=SES, location=Location(directory="/elsewhere")))
    assert await drained.epochs.offer(SES) == ""


async def test_the_offer_of_the_first_of_two_baselines_is_kept(drained: Drained) -> None:
    """MCP-202, CTX-093: two processes that begin an epoch at once send the same tools."""
    first = await drained.epochs.initialize(SES, of(Fact("core/a")), drained.lease, offer=lambda: "one")
    second = await drained.epochs.initialize(SES, of(Fact("core/a")), drained.lease, offer=lambda: "two")
    assert first.offer == second.offer == "one"


async def test_an_epoch_from_before_has_no_offer(drained: Drained) -> None:
    """MCP-202: until the next one begins."""
    epoch = await drained.initialize(Fact("core/a"))
    assert epoch.offer == ""


# -- contention ----------------------------------------------------------------------------------------------------


async def test_losing_the_race_once_looks_again(drained: Drained, metrics: Metrics) -> None:
    """CTX-093: a stale revision is refused whole; the second attempt builds on what is stored."""
    a, b = Fact("core/a"), Fact("core/b")
    epoch = await drained.initialize(a, b)
    a.value = "v1"
    await drained.prepare(epoch, a, b)
    b.value = "v1"
    prepared = await drained.prepare(epoch, a, b)
    assert drained.told() == ["a is now v1", "b is now v1"]
    assert prepared.revision == 2
    assert metrics.read()["context.contention"][""]["times"] == 1


async def test_losing_it_twice_fails_the_turn(drained: Drained, metrics: Metrics) -> None:
    """CTX-093: both losses are counted and nothing is written."""
    fact = Fact("core/a")
    epoch = await drained.initialize(fact)
    fact.value = "v1"
    original = drained.lease.publish

    async def overtaken(*payloads: object, **options: object) -> object:
        drained.rows("update session_context_epoch set revision = revision + 1")
        return await original(*payloads, **options)  # type: ignore[arg-type]

    drained.lease.publish = overtaken  # type: ignore[method-assign, assignment]
    with pytest.raises(ContextContention):
        await drained.prepare(epoch, fact)
    assert metrics.read()["context.contention"][""]["times"] == 2
    assert drained.told() == []


async def test_a_newly_begun_epoch_is_not_taken_for_an_older_one(drained: Drained) -> None:
    """CTX-093: revisions start again at 0 after a move, the baseline's sequence does not."""
    a = Fact("core/a", "old")
    epoch = await drained.initialize(a)
    await drained.log.publish(Moved(timestamp=1, session_id=SES, location=Location(directory="/elsewhere")))
    await drained.initialize(Fact("core/a", "new"))
    a.value = "new"
    prepared = await drained.prepare(epoch, a)
    assert drained.told() == []
    assert prepared.baseline == "a is new"


async def test_a_newer_owner_refuses_the_write(drained: Drained) -> None:
    """CTX-093, CTX-086: epochs are written under the drain's fence; neither message nor snapshot appears."""
    fact = Fact("core/a")
    epoch = await drained.initialize(fact)
    rows = drained.rows(EPOCH)
    drained.rows("update session_lease set token = token + 1, owner_id = 'own_other'")
    fact.value = "v1"
    with pytest.raises(Fenced):
        await drained.prepare(epoch, fact)
    assert (drained.rows(EPOCH), drained.told()) == (rows, [])


# -- damage --------------------------------------------------------------------------------------------------------


async def test_a_damaged_envelope_is_typed_and_can_be_begun_anew(drained: Drained) -> None:
    """CTX-062, CTX-063, EVT-056: loading fails with the Session and details; recovery replaces the row, unless a
    required source is unavailable."""
    fact = Fact("core/a")
    await drained.initialize(fact)
    latest = await note(drained)
    snapshots = "id in (select snapshot_id from session_context_epoch)"
    drained.rows(f"""update context_text set content = '{{"date":{{"value":"secret"}}}}' where {snapshots}""")
    with pytest.raises(ContextSnapshotDecodeError) as damaged:
        await drained.epochs.load(SES)
    assert (damaged.value.session_id, damaged.value.code) == (SES, "Session.ContextSnapshotDecodeError")
    assert "secret" not in str(damaged.value)
    with pytest.raises(InitializationBlocked):
        await drained.epochs.recover(SES, of(Fact("core/a", UNAVAILABLE)), drained.lease)
    with pytest.raises(ContextSnapshotDecodeError):
        await drained.epochs.load(SES)
    fact.value = "v1"
    epoch = await drained.epochs.recover(SES, of(fact), drained.lease)
    assert (epoch.baseline, epoch.baseline_seq) == ("a is v1", latest)
    assert await drained.prepare(epoch, fact) is epoch


async def test_an_undecodable_value_is_no_error(drained: Drained) -> None:
    """CTX-062, CTX-041: inside a valid envelope it leads to a replacement."""
    epoch = await drained.initialize(Fact("core/a", "text"))
    prepared = await drained.prepare(epoch, Fact("core/a", 5, codec=JsonCodec(int)))
    assert prepared.baseline == "a is 5"
    assert drained.told() == []


# -- what boundaries saw -------------------------------------------------------------------------------------------


async def test_outages_and_removals_are_noted_once(drained: Drained, clock: ManualClock) -> None:
    """CTX-202, CTX-046: since when, written only when it changes; a new baseline forgets what was removed."""
    a, gone = Fact("core/a"), Fact("core/gone")
    epoch = await drained.initialize(a, gone)
    assert epoch.observed == {}
    a.lose()
    since = clock.now()
    epoch = await drained.prepare(epoch, a, gone)
    assert epoch.observed == {"core/a": SourceState(state="unavailable", since=since)}
    commits = drained.lease.commits
    clock.advance(1000)
    assert await drained.prepare(epoch, a, gone) is epoch
    assert drained.lease.commits == commits
    epoch = await drained.prepare(epoch, a)
    assert epoch.observed == {
        "core/gone": SourceState(state="removed", since=since + 1000),
        "core/a": SourceState(state="unavailable", since=since),
    }
    a.value = "v0"
    epoch = await drained.prepare(epoch, a)
    assert (
        dict((await drained.load()).observed)
        == dict(epoch.observed)
        == {"core/gone": SourceState(state="removed", since=since + 1000)}
    )
    compaction = await compact(drained)
    assert (await drained.prepare(epoch, a, compaction_seq=compaction)).observed == {}
    assert drained.told() == ["Removed gone"]


# -- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.store("sqlite", reason="faults of the file system below SQLite")
@pytest.mark.parametrize("fault", ["sync", "full", "read only"])
async def test_message_and_snapshot_agree_whatever_the_disk_does(
    disk: FaultyDisk, tmp_path: Path, ids: Ids, clock: ManualClock, fault: str
) -> None:
    """CTX-086, CTX-096: at every commit point of initialize, update and replace a failure leaves the state before it,
    and a retry tells the model everything exactly once."""
    database = SqliteDatabase(tmp_path / "faulty" / "holdfast.db")
    log = EventLog(database, MANIFEST, SESSION_PROJECTORS, ids)
    await log.publish(SessionCreated(session_id=SES, info=record(SES)), before=[ENSURE_PROJECT])
    ownership = Ownership(database, log, ids, clock, FileLiveness(tmp_path / "owners2"))
    drained = Drained(database, log, Epochs(database, ids, clock, Metrics()), await open_lease(ownership, log, SES))

    def spoil() -> None:
        disk.sync_fails = fault == "sync"
        disk.read_only = fault == "read only"
        disk.wal_room = 0 if fault == "full" else None

    def state() -> tuple[object, object]:
        return drained.rows(EPOCH), drained.told()

    a, b = Fact("core/a"), Fact("core/b", removable=False)
    spoil()
    before = state()
    with pytest.raises(StorageError):
        await drained.initialize(a, b)
    disk.heal()
    assert state() == before
    epoch = await drained.initialize(a, b)

    a.value = "v1"
    spoil()
    before = state()
    with pytest.raises(StorageError):
        await drained.prepare(epoch, a, b)
    disk.heal()
    assert state() == before
    epoch = await drained.prepare(await drained.load(), a, b)
    assert drained.told() == ["a is now v1"]

    spoil()
    before = state()
    with pytest.raises(StorageError):
        await drained.prepare(epoch, a)
    disk.heal()
    assert state() == before
    epoch = await drained.prepare(await drained.load(), a)
    assert epoch.baseline == "a is v1"
    assert drained.told() == ["a is now v1"]
    await ownership.close()
    await log.close()
    database.close()


async def test_a_caller_that_goes_away_does_not_split_message_and_snapshot(drained: Drained) -> None:
    """CTX-086: cancelled at any step, both are there or neither; the next boundary continues from what is stored."""
    fact = Fact("core/a", 0, codec=ANYTHING)
    await drained.initialize(fact)
    for steps in range(6):
        fact.value = steps + 1
        task = asyncio.create_task(drained.prepare(await drained.load(), fact))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await drained.prepare(await drained.load(), fact)
        assert drained.told() == [f"a is now {number}" for number in range(1, steps + 2)]


async def test_the_snapshot_is_not_in_any_message(drained: Drained) -> None:
    """CTX-064, CTX-097, CTX-102: the message list returns it, with its text alone, and nothing that is no text."""
    fact = Fact("core/a", {"hidden": "value"})
    epoch = await drained.initialize(fact)
    fact.value = {"hidden": "other"}
    await drained.prepare(epoch, Fact("core/b"))
    store = SessionStore(drained.database)
    listed = [item.decode() for item in await store.messages(SES, order="asc", limit=10)]
    assert [msgspec.to_builtins(item).get("text") for item in listed] == ["b is v0\n\nRemoved a"]
    assert ContextUpdated.__struct_fields__ == ("timestamp", "session_id", "message_id", "text")
    assert b"hidden" not in msgspec.json.encode(listed)
