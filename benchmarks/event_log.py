"""The event log against bare SQLite, as ratios of one run. `make bench`.

Each pair is measured in turn on the same disk, several rounds, medians; absolute figures only say how noisy it was."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from holdfast.core.clock import Ids, SystemClock
from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.sqlite import BusyWait, connect
from holdfast.core.database.unit import Statement, Unit
from holdfast.core.event.log import EventLog
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.schema.codec import encode
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.session import RecordTime, SessionRecord
from holdfast.schema.session_event import SessionCreated, Synthetic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

TEXT = "x" * 300
ROUNDS = 5


class Bench:
    """One database with the log on top, and the same file's twin for the bare loop."""

    def __init__(self, folder: Path) -> None:
        self.ids = Ids(SystemClock())
        self.database = SqliteDatabase(folder / "log.db")
        self.log = EventLog(self.database, MANIFEST, SESSION_PROJECTORS, self.ids)
        SqliteDatabase(folder / "bare.db").close()
        self.bare = connect(str(folder / "bare.db"), BusyWait())
        self.bare.execute("pragma foreign_keys=off")
        self.sql = self.database._queries

    async def session(self) -> str:
        id = self.ids.session()
        project = Statement("project.ensure", {"id": "global", "worktree": "/", "vcs": None, "time_created": 0})
        record = SessionRecord(
            id=id,
            slug="bench",
            project_id="global",
            directory="/",
            title="bench",
            version="0",
            time=RecordTime(created=0, updated=0),
        )
        await self.database.submit(Unit("global", local=(project,)))
        await self.log.publish(SessionCreated(session_id=id, info=record))
        return id

    async def append(self, session_id: str) -> None:
        """One event and its projection: an event row, the sequence, a message row."""
        await self.log.publish(Synthetic(timestamp=1, session_id=session_id, message_id=self.ids.message(), text=TEXT))

    def bare_commit(self, sessions: Sequence[str], first: int) -> None:
        """The same rows for these Sessions, without anything around them."""
        self.bare.execute("begin immediate")
        for seq, session_id in enumerate(sessions, start=first):
            message_id, event_id = self.ids.message(), self.ids.event()
            payload = Synthetic(timestamp=1, session_id=session_id, message_id=message_id, text=TEXT)
            data = encode(payload).decode()
            self.bare.execute(
                self.sql["message.insert"],
                {
                    "session_id": session_id,
                    "seq": seq,
                    "id": message_id,
                    "type": "synthetic",
                    "timestamp": 1,
                    "data": data,
                },
            )
            self.bare.execute(self.sql["event.advance"], {"aggregate_id": session_id, "size": 1}).fetchall()
            self.bare.execute(
                self.sql["event.append"],
                {
                    "id": event_id,
                    "aggregate_id": session_id,
                    "seq": seq,
                    "type": "session.next.synthetic.1",
                    "data": data,
                    "metadata": None,
                },
            )
        self.bare.execute("commit")

    async def close(self) -> None:
        await self.log.close()
        self.database.close()
        self.bare.close()


async def group_commit(bench: Bench) -> float:
    """Units per second with 100 callers, over those of a bare loop with the batches that the writer really made."""
    callers, each = 100, 30
    ratios = []
    for _ in range(ROUNDS):
        sessions = [await bench.session() for _ in range(callers)]
        sizes: list[int] = []
        unwatch = _watch_batches(bench, sizes)
        started = time.perf_counter()
        await asyncio.gather(*(_repeat(partial(bench.append, id), each) for id in sessions))
        grouped = callers * each / (time.perf_counter() - started)
        unwatch()
        started, seq = time.perf_counter(), 0
        for size in sizes:
            bench.bare_commit([f"bare{sessions[(seq + n) % callers]}" for n in range(size)], seq)
            seq += size
        bare = seq / (time.perf_counter() - started)
        ratios.append(grouped / bare)
        print(f"    {grouped:8,.0f} units/s, bare {bare:8,.0f}, median batch {statistics.median(sizes):.0f}")
    return statistics.median(ratios)


async def single_commit(bench: Bench) -> float:
    """One caller's time per commit over that of a bare commit."""
    ratios = []
    for _ in range(ROUNDS):
        session = await bench.session()
        ours, bare = [], []
        for seq in range(300):
            started = time.perf_counter()
            await bench.append(session)
            middle = time.perf_counter()
            bench.bare_commit([f"bare{session}"], seq)
            ours.append(middle - started)
            bare.append(time.perf_counter() - middle)
        ratios.append(statistics.median(ours) / statistics.median(bare))
        print(f"    {statistics.median(ours) * 1e3:.3f} ms, bare {statistics.median(bare) * 1e3:.3f} ms")
    return statistics.median(ratios)


async def growth(bench: Bench) -> float:
    """CPU and disk cost of one append at event 20,000 of a Session over that at event 200."""
    session = await bench.session()
    young = await _bulk(bench, session, until=200)
    early = await _timed(bench, session, 300)
    await _bulk(bench, session, until=20_000 - young)
    late = await _timed(bench, session, 300)
    print(f"    {early * 1e3:.3f} ms at 200, {late * 1e3:.3f} ms at 20,000")
    return late / early


async def memory(bench: Bench) -> float:
    """Resident memory after 100,000 appends over that after 1,000."""
    session = await bench.session()
    await _bulk(bench, session, until=1_000)
    before = _resident()
    await _bulk(bench, session, until=99_000)
    after = _resident()
    print(f"    {before / 2**20:.1f} MB, {after / 2**20:.1f} MB")
    return after / before


async def _timed(bench: Bench, session: str, count: int) -> float:
    times = []
    for _ in range(count):
        started = time.perf_counter()
        await bench.append(session)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


async def _bulk(bench: Bench, session: str, until: int) -> int:
    for _ in range(0, until, 50):
        await asyncio.gather(*(bench.append(session) for _ in range(50)))
    return until


async def _repeat(work: Callable[[], Awaitable[None]], count: int) -> None:
    for _ in range(count):
        await work()


def _watch_batches(bench: Bench, sizes: list[int]) -> Callable[[], None]:
    executor = bench.database._writer._executor
    original = executor.run_batch

    def watched(units: Sequence[Unit]) -> list[object]:
        sizes.append(len(units))
        return original(units)  # type: ignore[return-value]

    executor.run_batch = watched  # type: ignore[method-assign, assignment]

    def unwatch() -> None:
        executor.run_batch = original  # type: ignore[method-assign]

    return unwatch


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


SCENARIOS: tuple[tuple[str, Callable[[Bench], Awaitable[float]], str, float], ...] = (
    ("group commit, 100 callers, against a bare loop", group_commit, ">=", 0.6),
    ("one caller's commit against a bare one", single_commit, "<=", 2.0),
    ("an append at event 20,000 against one at 200", growth, "<=", 1.2),
    ("memory after 100,000 appends against after 1,000", memory, "<=", 1.1),
)


async def main() -> int:
    print(f"SQLite {apsw.sqlite_lib_version()}, synchronous=FULL")
    failed = 0
    for name, measure, relation, bound in SCENARIOS:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder))
            ratio = await measure(bench)
            await bench.close()
        good = ratio >= bound if relation == ">=" else ratio <= bound
        failed += not good
        print(f"{'ok ' if good else 'BAD'} {name}: {ratio:.2f} ({relation} {bound})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
