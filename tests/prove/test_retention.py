"""Retention while Sessions work: turns are not delayed, the file gets smaller, and every row agrees with its events.

HOLDFAST_PROVE_SESSIONS sets how many Sessions there are; one in ten is kept."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.prove.many_sessions import multiply

from holdfast import Holdfast
from holdfast.core.database.execute import Executor
from holdfast.core.database.sqlite import BusyWait

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(7200)]

SESSIONS = int(os.environ.get("HOLDFAST_PROVE_SESSIONS", "20000"))
RUNNING = 20
PROMPTS = 8
BASELINE_SECONDS = 60.0
TURNS = 20
"""Of one Session. Afterwards a new one takes its place: with a long history every turn would take longer."""
MOST_DELAY = 0.050


class Waits(BusyWait):
    """Remembers how long commits waited for the lock of another connection."""

    longest: list[float] = []  # noqa: RUF012 - one for all connections of the process

    def __call__(self, attempts: int) -> bool:
        again = super().__call__(attempts)
        if self.since is not None:
            Waits.longest.append(time.monotonic() - self.since)
        return again


def environment(home: Path) -> dict[str, str]:
    folder = home / "config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    document = {"holdfast": {"titles": False, "retention": {"count": SESSIONS // 10}}}
    (folder / "opencode.json").write_text(json.dumps(document), encoding="utf-8")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "HOLDFAST_DATA": str(home / "data"),
    }


@asynccontextmanager
async def working(hf: Holdfast, turns: list[float]) -> AsyncIterator[None]:
    """Sessions that take turns one after the other, and not in step with each other; how long each turn took."""
    stop = asyncio.Event()

    async def work(number: int) -> None:
        await asyncio.sleep(number / RUNNING)
        for turn in itertools.count():
            if stop.is_set():
                return
            if turn % TURNS == 0:
                session = (await hf.run("begin", model="demo/echo")).session.id
            else:
                began = time.monotonic()
                await hf.run("again", session=session)
                turns.append(time.monotonic() - began)
            await asyncio.sleep(1)  # a model thinks longer

    tasks = [asyncio.create_task(work(number)) for number in range(RUNNING)]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


@pytest.fixture
def started_objects() -> Iterator[None]:
    """As the commands do after their start: objects that stay are not looked at by each collection of garbage."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("started_objects")
@pytest.mark.parametrize("where", ["process", "server"])
async def test_retention_beside_working_sessions(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """OPS-108, OPS-116: by a process of its own, and by the one that executes the Sessions."""
    variables = environment(tmp_path)
    (tmp_path / "project").mkdir()
    file = tmp_path / "data" / "holdfast.db"
    async with Holdfast(tmp_path / "project", data=tmp_path / "data", environment=variables) as hf:
        answer = await hf.run("x" * 2000, model="demo/echo")
        for number in range(PROMPTS - 1):
            await hf.run(f"{number} " + "y" * 1000, session=answer.session.id)
    multiply(file, answer.session.id, SESSIONS - 1)
    monkeypatch.setattr("holdfast.core.database.writer.BusyWait", Waits)
    async with Holdfast(tmp_path / "project", data=tmp_path / "data", environment=variables) as hf:
        before = file.stat().st_size
        calm, busy = list[float](), list[float]()
        async with working(hf, calm):
            await asyncio.sleep(BASELINE_SECONDS)
        Waits.longest.clear()
        holds, load = _holds(monkeypatch), os.getloadavg()[0]
        began = time.monotonic()
        async with working(hf, busy):
            removed = await (_by_process(variables, tmp_path) if where == "process" else _here(hf))
        seconds = time.monotonic() - began
        waited, worked = max(Waits.longest, default=0.0), max(holds)
        after = file.stat().st_size
        assert await hf.verify() == []
    with capsys.disabled():
        print(
            f"\n{where}: {removed} trees removed in {seconds:.1f} s; file {before:,} -> {after:,} bytes; lock waits at "
            f"most {waited * 1000:.1f} ms, work in a commit at most {worked * 1000:.1f} ms; load {load:.1f}; "
            f"turns (ms): {_figures(calm)} before, {_figures(busy)} meanwhile"
        )
    assert removed >= SESSIONS - SESSIONS // 10
    assert after < before / 2
    assert worked < MOST_DELAY
    if load > (os.cpu_count() or 1):
        pytest.skip(f"a load of {load:.1f} delays turns by itself; everything but the times is proven")
    assert waited < MOST_DELAY
    assert max(busy) - max(calm) < MOST_DELAY


def _holds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the commits of this process work, without waiting for the disk or for other programs."""
    holds, run_batch = [0.0], Executor.run_batch

    def measured(self: Executor, units: Any, *, guarded: bool = False) -> Any:
        began = time.thread_time()
        try:
            return run_batch(self, units, guarded=guarded)
        finally:
            holds.append(time.thread_time() - began)

    monkeypatch.setattr(Executor, "run_batch", measured)
    return holds


async def _by_process(variables: dict[str, str], home: Path) -> int:
    holdfast = str(Path(sys.executable).with_name("holdfast"))
    process = await asyncio.create_subprocess_exec(
        holdfast, "retention", "--json", cwd=home / "project", env=variables, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return len(json.loads(out)["items"])


async def _here(hf: Holdfast) -> int:
    return len((await hf.apply_retention()).items)


def _figures(turns: list[float]) -> str:
    ordered = sorted(turns)
    shares = [ordered[int(len(ordered) * share)] for share in (0.5, 0.95, 0.99)]
    return "/".join(f"{value * 1000:.0f}" for value in (*shares, ordered[-1])) + f" (50/95/99/100 % of {len(turns)})"
