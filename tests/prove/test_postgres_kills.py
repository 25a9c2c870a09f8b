"""PostgreSQL is killed again and again under load: nothing that was acknowledged is lost, nothing is stored twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from tests.core.database.units import unit
from tests.stores.server import NoPostgres, programs

from holdfast.core.database.postgres.database import PostgresDatabase
from holdfast.core.database.unit import Committed, Statement, Unit

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.prove,
    pytest.mark.store("postgres", reason="it is PostgreSQL that is killed"),
    pytest.mark.timeout(900),
]

KILLS = int(os.environ.get("HOLDFAST_TEST_KILLS", "50"))
CALLERS = 24
AGGREGATES = 7
USER = "holdfast"


class OwnServer:
    """A server that only this test uses, with every commit synced."""

    def __init__(self, folder: Path) -> None:
        self._programs = programs()
        self._data = folder / "data"
        self._user = "postgres" if os.getuid() == 0 else None
        self._log = open(folder / "log", "wb")  # noqa: SIM115 - closed below
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        folder.chmod(0o777)
        self._run([self._programs / "initdb", "-D", self._data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"])
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        arguments: list[str | Path] = [
            "-D",
            self._data,
            "-p",
            str(self.port),
            "-h",
            "127.0.0.1",
            "-k",
            self._data,
            "-c",
            "fsync=on",
        ]
        self._process = subprocess.Popen(
            [self._programs / "postgres", *arguments, "-c", "dynamic_shared_memory_type=mmap"],
            user=self._user,
            group=self._user,
            extra_groups=[],
            cwd="/",
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.address).close()
                return
            time.sleep(0.02)
        raise TimeoutError("the server does not start")

    def kill(self) -> None:
        """Every process of it, at once."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)  # it makes no more of them
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text(encoding="ascii")
        pids = (self._process.pid, *map(int, children.split()))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.002)

    def kill_backend(self, generator: random.Random) -> bool:
        """One backend, if there is one; the server ends all others and recovers."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            found = connection.execute(
                "select pid from pg_stat_activity where application_name like 'holdfast:%' and pid <> pg_backend_pid()"
            ).fetchall()
        if not found:
            return False
        with suppress(ProcessLookupError):
            os.kill(generator.choice(found)[0], signal.SIGKILL)
        return True

    def close(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(30)
        self._log.close()

    def _run(self, command: list[str | Path]) -> None:
        subprocess.run(
            command, check=True, stdout=self._log, user=self._user, group=self._user, extra_groups=[], cwd="/"
        )


@pytest.fixture
def own() -> Iterator[OwnServer]:
    # Not below pytest's folder: that is for its owner alone, and the server runs as another user.
    with tempfile.TemporaryDirectory(prefix="holdfast-kills-", ignore_cleanup_errors=True) as folder:
        try:
            server = OwnServer(Path(folder))
        except NoPostgres as error:
            pytest.skip(f"no PostgreSQL here: {error}")
        yield server
        server.close()


async def test_nothing_that_was_acknowledged_is_lost(own: OwnServer) -> None:
    """STO-005, STO-006: every caller is answered, every event stands once at the place that was told."""
    nodes = [PostgresDatabase(own.address) for _ in range(2)]
    told: dict[str, tuple[str, Committed]] = {}
    counted = dict.fromkeys((f"ses_count{number}" for number in range(CALLERS)), 0)
    over = False

    async def caller(number: int) -> None:
        node, step = nodes[number % 2], 0
        while not over:
            step += 1
            id, aggregate = f"evt_{number}_{step}", f"ses_{(number + step) % AGGREGATES}"
            told[id] = aggregate, await node.submit(unit(id, aggregate=aggregate, size=200))
            counter = f"ses_count{number}"
            await node.submit(Unit(aggregate, local=(Statement("work.add", {"session_id": counter, "time": 1}),)))
            counted[counter] += 1

    callers = [asyncio.create_task(caller(number)) for number in range(CALLERS)]
    generator, backends = random.Random(7), 0
    for kill in range(KILLS):
        await asyncio.sleep(generator.uniform(0.05, 0.4))
        if kill % 3 == 2:
            backends += await asyncio.to_thread(own.kill_backend, generator)
            continue
        own.kill()
        await asyncio.to_thread(own.start)
    await asyncio.sleep(0.5)
    over = True
    async with asyncio.timeout(60):
        await asyncio.gather(*callers)
    for node in nodes:
        await asyncio.to_thread(node.close)
    with psycopg.connect(own.address) as looking:
        stored = looking.execute("select id, aggregate_id, seq from event").fetchall()
        heads = looking.execute("select aggregate_id, seq from event_sequence").fetchall()
        work = looking.execute("select session_id, time from session_work").fetchall()
    assert {id: (aggregate, committed.first) for id, (aggregate, committed) in told.items()} == {
        id: (aggregate, seq) for id, aggregate, seq in stored
    }
    assert len(stored) == len(told)
    assert dict(heads) == {
        aggregate: sum(1 for _, of, _ in stored if of == aggregate) - 1 for aggregate in {of for _, of, _ in stored}
    }
    assert dict(work) == counted
    print(f"{KILLS} kills, {backends} of them of one backend, {len(told)} events, {sum(counted.values())} counted")
    assert len(told) > KILLS, "hardly anything was written"
    assert backends >= KILLS // 6, "hardly any backend was found to be killed"
