"""PostgreSQL against SQLite, and nodes against each other, in under four minutes: `python benchmarks/postgres.py`, or
with the address of a database.

Without an address it starts a server of its own, if there is one to start. Client and server share the machine, so
figures are of value as ratios of one run. Given an address, a schema is made there and left there."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from benchmarks.postgres_nodes import admitted_per_second, new_sessions  # noqa: E402
from benchmarks.postgres_turns import Bench  # noqa: E402
from benchmarks.postgres_units import measure, measure_reads, record  # noqa: E402
from tests.prove.live_deltas import measure_live_deltas  # noqa: E402
from tests.prove.postgres_cluster import Store  # noqa: E402
from tests.stores.server import NoPostgres, programs  # noqa: E402

from holdfast.core.database.database import SqliteDatabase  # noqa: E402
from holdfast.core.database.postgres.database import PostgresDatabase  # noqa: E402
from holdfast.embedded.serve import fast_loop  # noqa: E402

if TYPE_CHECKING:
    from holdfast.core.database.unit import Unit

ROUNDS = 2
CALLERS = {32: 0.5, 200: 0.7}
"""With the least share of SQLite's units per second."""
LATENCY_MS, LATENCY_CALLERS, LATENCY_UNITS = 1.0, 200, 2_000
NODE_CALLERS, NODE_SESSIONS, NODE_SHARE = 32, 8, 0.75
GAP_TURNS, GAP_ROUNDS, GAP_RATIO = 20, 5, 2.0
BUSY_SESSIONS, BUSY_TURNS, BUSY_DELTAS, BUSY_RATIO = 200, 5, 50, 1.6
LIVE_MS = 5.0


class Table:
    """Figures with their limits, told as they come and once more at the end."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.passed = True
        self._began = time.monotonic()

    def note(self, text: str) -> None:
        print(f"    {text}", flush=True)

    def add(self, what: str, figure: float, limit: float, *, least: bool, unit: str = "") -> None:
        passed = figure >= limit if least else figure <= limit
        self.passed = self.passed and passed
        bound = f"{'>=' if least else '<='} {limit:g}{unit}"
        line = f"{'ok ' if passed else 'BAD'} {what:66} {figure:8.2f}{unit:3} {bound}"
        self._lines.append(line)
        print(line, flush=True)

    def __str__(self) -> str:
        return "\n".join([*self._lines, f"    {time.monotonic() - self._began:.0f} s"])


class Benchmark:
    def __init__(self, folder: Path, address: str, table: Table) -> None:
        self._folder = folder
        self._address = address
        self._table = table

    def schema(self, address: str | None = None) -> str:
        """The address with a schema of its own."""
        base = address or self._address
        return f"{base}{'&' if '?' in base else '?'}schema=bench_{secrets.token_hex(4)}"

    async def run(self, store: Store | None) -> None:
        units = await record(self._folder)
        self._table.note(f"{len(units)} units with {sum(len(unit.events) for unit in units)} events for each caller")
        await self.units(units)
        await self.latency(units)
        await self.two_nodes()
        await self.gap()
        await self.busy()
        if store is not None:
            await self.live(store)

    async def units(self, units: list[Unit]) -> None:
        sqlite = SqliteDatabase(self._folder / "bench.db")
        postgres = PostgresDatabase(self.schema())
        try:
            for callers, share in CALLERS.items():
                ratios = []
                for _ in range(ROUNDS):
                    rates = []
                    for kind, database in (("SQLite", sqlite), ("PostgreSQL", postgres)):
                        rate = await measure(database, units, callers)
                        rates.append(rate.units)
                        self._table.note(f"{callers:3} callers, {kind}: {rate}")
                    ratios.append(rates[1] / rates[0])
                what = f"units per second, {callers} callers, against SQLite"
                self._table.add(what, statistics.median(ratios), share, least=True)
            for kind, database in (("SQLite", sqlite), ("PostgreSQL", postgres)):
                one, ten = await measure_reads(database, units[0].aggregate_id)
                self._table.note(f"{kind}: a read takes {one:.0f} µs, ten together {ten:.0f} µs")
        finally:
            postgres.close()
            sqlite.close()

    async def latency(self, units: list[Unit]) -> None:
        port = urlsplit(self._address).port
        if port is None:
            self._table.note("no latency without a port in the address")
            return
        program = [sys.executable, str(ROOT / "benchmarks" / "delayed_link.py"), str(port), str(LATENCY_MS)]
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as link:  # noqa: ASYNC220
            assert link.stdout is not None
            far = self._address.replace(f":{port}", f":{int(link.stdout.readline())}", 1)
            postgres = PostgresDatabase(self.schema(far))
            try:
                rate = await measure(postgres, units, LATENCY_CALLERS)
            finally:
                postgres.close()
                link.kill()
        self._table.note(f"{LATENCY_CALLERS} callers, {LATENCY_MS:g} ms away: {rate}")
        what = f"units per second, {LATENCY_CALLERS} callers, {LATENCY_MS:g} ms one way"
        self._table.add(what, rate.units, LATENCY_UNITS, least=True)

    async def two_nodes(self) -> None:
        address, shares = self.schema(), []
        await new_sessions(address, 1)  # makes the tables
        for _ in range(ROUNDS):
            sessions = [await new_sessions(address, NODE_SESSIONS) for _ in range(3)]
            (alone,) = admitted_per_second(address, [(NODE_CALLERS, sessions[0])])
            half = NODE_CALLERS // 2
            together = admitted_per_second(address, [(half, sessions[1]), (half, sessions[1])])
            apart = admitted_per_second(address, [(half, sessions[2][:4]), (half, sessions[2][4:])])
            shares.append(sum(together) / alone)
            each, different = (" + ".join(f"{rate:.0f}" for rate in rates) for rates in (together, apart))
            self._table.note(
                f"prompts per second: {alone:.0f} by one node, {each} by two, in different Sessions {different}"
            )
        what = f"prompts per second, two nodes in the same {NODE_SESSIONS} Sessions, against one"
        self._table.add(what, statistics.median(shares), NODE_SHARE, least=True)

    async def gap(self) -> None:
        gaps: dict[str, list[float]] = {"SQLite": [], "PostgreSQL": []}
        async with (
            Bench(self._folder / "gap-sqlite", None, GAP_TURNS, 1) as sqlite,
            Bench(self._folder / "gap-postgres", self.schema(), GAP_TURNS, 1) as postgres,
        ):
            for round in range(GAP_ROUNDS):
                for kind, bench in (("SQLite", sqlite), ("PostgreSQL", postgres)):
                    gap = await bench.gap()
                    if round:
                        gaps[kind].append(gap)
        near, far = (statistics.median(gaps[kind]) for kind in ("SQLite", "PostgreSQL"))
        self._table.note(f"from an answer to the next request: {near:.2f} ms on SQLite, {far:.2f} ms on PostgreSQL")
        self._table.add("gap between answer and next request, against SQLite", far / near, GAP_RATIO, least=False)

    async def busy(self) -> None:
        used = []
        for kind, address in (("SQLite", None), ("PostgreSQL", self.schema())):
            folder = self._folder / f"busy-{kind.lower()}"
            async with Bench(folder, address, BUSY_TURNS, BUSY_DELTAS) as bench:
                await bench.cpu(5)
                began = time.monotonic()
                used.append(await bench.cpu(BUSY_SESSIONS))
                seconds = time.monotonic() - began
            self._table.note(f"{BUSY_SESSIONS} Sessions on {kind}: {used[-1]:.2f} s of CPU, {seconds:.1f} s")
        what = f"CPU of the server for {BUSY_SESSIONS} Sessions, against SQLite"
        self._table.add(what, used[1] / used[0], BUSY_RATIO, least=False)

    async def live(self, store: Store) -> None:
        folder = self._folder / "live"
        folder.mkdir()
        found = await measure_live_deltas(folder, store)
        self._table.note(f"live text: {found.near:.1f} ms, through another node {found.far:.1f} ms")
        self._table.add("live text through another node, later by", found.more, LIVE_MS, least=False, unit=" ms")


async def main(given: str | None) -> int:
    table = Table()
    store: Store | None = None
    if given is None:
        try:
            programs()
        except NoPostgres as error:
            print(f"no figures of PostgreSQL: {error}")
            return 0
        store = Store()
        given = store.server.address("nodes", tcp=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        await Benchmark(Path(name).resolve(), given, table).run(store)
    print(f"\n{table}")
    return 0 if table.passed else 1


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        sys.exit(runner.run(main(sys.argv[1] if len(sys.argv) > 1 else None)))
