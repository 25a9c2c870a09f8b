"""What a sandbox adds to a command: the median of 50 runs of `true` with and without it, per back end. `make bench`."""

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
from holdfast.core.process.sandbox.sandbox import SandboxPaths, confinement

ROUNDS = 50
MOST = 20.0
"""Milliseconds."""


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
    return 0 if worst <= MOST else 1


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
