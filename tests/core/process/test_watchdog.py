"""Children do not outlive a runtime that was killed."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.core.process.conftest import Call, alive, gone

from holdfast.core.process.process import Processes

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]


async def test_a_killed_runtime_takes_its_children_along(tmp_path: Path) -> None:
    """TOL-220: leader, children, and those in a session of their own."""
    command = "setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000 & echo $!; echo $$; wait"
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.core.process.host", str(tmp_path), command),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert host.stdout is not None
    found = [int(await host.stdout.readline()) for _ in range(3)]
    assert all(map(alive, found))
    host.kill()
    await host.communicate()
    assert [await gone(pid) for pid in found] == [True] * 3


async def test_a_lost_watchdog_is_replaced(processes: Processes, call: Callable[..., Call]) -> None:
    """TOL-220: the next start notices."""
    first = call("echo $$; sleep 1000")
    await first.says("\n")
    assert processes._watchdog is not None
    shell = processes._watchdog._shell
    assert shell is not None
    shell.kill()
    shell.wait()
    second = call("echo $$; sleep 1000")
    await second.says("\n")
    assert processes._watchdog._shell not in (None, shell)
    for one in (first, second):
        one.task.cancel()
    await asyncio.gather(first.task, second.task, return_exceptions=True)


async def test_an_orderly_end_kills_nobody_else(processes: Processes, call: Callable[..., Call]) -> None:
    """TOL-220: the watchdog leaves when the last process of an owner has ended."""
    assert (await call("true").task).code == 0
    assert processes._watchdog is not None
    shell = processes._watchdog._shell
    await processes.close()
    assert shell is not None
    assert shell.returncode == 0


async def test_a_watchdog_that_hangs_does_not_spoil_a_close(
    processes: Processes, call: Callable[..., Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-220: it is told, and left to end by itself."""
    monkeypatch.setattr("holdfast.core.process.watchdog.CLOSE_SECONDS", 0.1)
    assert (await call("true").task).code == 0
    assert processes._watchdog is not None
    shell = processes._watchdog._shell
    assert shell is not None
    shell.send_signal(signal.SIGSTOP)
    await processes.close()
    shell.send_signal(signal.SIGCONT)
    assert await asyncio.to_thread(shell.wait) == 0
