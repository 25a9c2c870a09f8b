"""What a sandbox adds to a command: the median of 50 runs of `true` with and without it, per back end; and the search
for repositories before and after a command, in an ordinary project and in one of 100,000 directories. `make bench`."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast.core.process.process import Capture, Processes
from holdfast.core.process.sandbox.backends import FixedBackend, available_candidates, probe
from holdfast.core.process.sandbox.confinement import Confinement, SandboxSettings, SandboxUnavailable
from holdfast.core.process.sandbox.leftovers import Leftovers
from holdfast.core.process.sandbox.sandbox import SandboxPaths, confinement

ROUNDS = 50
MOST = 20.0
"""Milliseconds."""
ORDINARY, LARGE = 1_000, 100_000
"""Directories of a project."""
MOST_ORDINARY, MOST_LARGE = 20.0, 1_000.0
"""Milliseconds for both looks, before and after a command."""
LOOKS = 10


async def main() -> int:
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        base = Path(os.path.realpath(folder))
        for name in ("project", "t", "home/.ssh"):
            (base / name).mkdir(parents=True)
        await asyncio.to_thread(subprocess.run, ("git", "init", "-q", "project"), cwd=base, check=True)
        around = SandboxPaths(base / "project", base / "project", base / "home", (), ())
        confined = confinement("workspace", "off", around, SandboxSettings("workspace"), base / "t")
        for name, make in available_candidates().items():
            try:
                backend = make()
                await probe(backend)
            except SandboxUnavailable as error:
                print(f"{name:12} not measured: {error}")
                continue
            processes = Processes(sandbox=FixedBackend(backend))
            plain, inside = await measure(processes, base / "project", confined)
            await processes.close()
            worst = max(worst, inside - plain)
            print(f"{name:12} {inside - plain:5.1f} ms more than {plain:.1f} ms (at most {MOST:g})")
        ordinary, large = [await look(base / str(number), number) for number in (ORDINARY, LARGE)]
    print(f"looking for repositories in {ORDINARY:,} directories: {ordinary:.1f} ms (at most {MOST_ORDINARY:g})")
    print(f"looking for repositories in {LARGE:,} directories: {large:.1f} ms (at most {MOST_LARGE:g})")
    return 0 if worst <= MOST and ordinary <= MOST_ORDINARY and large <= MOST_LARGE else 1


async def look(root: Path, number: int) -> float:
    """The median of both looks together, after the first."""
    for part in range(number // 20):
        for leaf in range(19):
            (root / str(part // 50) / str(part) / str(leaf)).mkdir(parents=True)
    await asyncio.to_thread(subprocess.run, ("git", "init", "-q"), cwd=root, check=True)
    await asyncio.sleep(1.1)  # until the directories are old enough to be remembered
    leftovers, times = Leftovers(root, root, os.environ), []
    confined = Confinement("workspace", "off", root, writable=(root, root / ".git"))
    for _ in range(LOOKS):
        started = time.perf_counter()
        inventory = await leftovers.take(confined.writable)
        assert await leftovers.settle(leftovers.begin(confined, inventory)) == ()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times[1:])


async def measure(processes: Processes, folder: Path, confined: Confinement) -> tuple[float, float]:
    """Taken in turns, so that both see the same load of the machine."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * ROUNDS):
        within = number % 2 == 1
        started = time.perf_counter()
        ended = await processes.run(
            ("/bin/sh", "-c", "true"),
            cwd=folder,
            environment={"PATH": os.defpath},
            output=Capture(1000),
            confinement=confined if within else None,
        )
        times[within].append((time.perf_counter() - started) * 1000)
        assert ended.code == 0
    return statistics.median(times[False]), statistics.median(times[True])


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
