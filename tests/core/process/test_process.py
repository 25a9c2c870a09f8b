"""Running child processes: their output, their end, and the end of everything they started."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.core.process.conftest import ENVIRONMENT, Call, alive, gone

from holdfast.core.process import tree
from holdfast.core.process.process import END_SECONDS, Capture, ProcessError, Processes, ProcessExit
from holdfast.core.session.interrupt import GRACE_SECONDS

pytestmark = pytest.mark.anyio
Start = Callable[..., Call]


async def run(processes: Processes, command: str, folder: Path, **options: float) -> tuple[ProcessExit, str]:
    output = Capture(1 << 20)
    ended = await processes.run(
        ("/bin/sh", "-c", command), cwd=folder, environment=ENVIRONMENT, output=output, timeout=options.get("timeout")
    )
    return ended, output.text()


def pids(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdigit()]


# -- what comes out ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "ended"),
    [
        ("exit 0", ProcessExit(0, None, "exit")),
        ("exit 7", ProcessExit(7, None, "exit")),
        ("kill -KILL $$", ProcessExit(137, "SIGKILL", "exit")),
        ("kill -SEGV $$", ProcessExit(139, "SIGSEGV", "exit")),
    ],
)
async def test_a_death_by_signal_is_reported_as_128_plus_its_number(
    processes: Processes, tmp_path: Path, command: str, ended: ProcessExit
) -> None:
    """TOL-215: the child's own end; a death by signal is 128 and its number, with its name."""
    assert (await run(processes, command, tmp_path))[0] == ended


async def test_both_streams_in_the_order_of_arrival(processes: Processes, tmp_path: Path) -> None:
    """TOL-221: combined, one after the other as they were written."""
    _, text = await run(processes, "for i in 1 2 3; do echo out$i; echo err$i >&2; done", tmp_path)
    assert text.split() == ["out1", "err1", "out2", "err2", "out3", "err3"]


async def test_streams_apart_with_their_own_limits(processes: Processes, tmp_path: Path) -> None:
    """TOL-221: each stream by itself, cut at its limit and marked as cut; the child is not held up by that."""
    output, error = Capture(5), Capture(1000)
    command = ("/bin/sh", "-c", "yes | head -c 500000; echo problem >&2")
    ended = await processes.run(command, cwd=tmp_path, environment=ENVIRONMENT, output=output, error=error)
    assert (ended.code, output.bytes(), output.truncated) == (0, b"y\ny\ny", True)
    assert (error.text(), error.truncated) == ("problem\n", False)


async def test_the_error_of_a_start_is_typed(processes: Processes, tmp_path: Path) -> None:
    """TOL-221: command and cause are in it, for a missing program and for a missing directory."""
    for command, cwd in ((("/no/such/program", "x"), tmp_path), (("/bin/sh",), tmp_path / "absent")):
        with pytest.raises(ProcessError) as failed:
            await processes.run(command, cwd=cwd, environment=ENVIRONMENT, output=Capture(10))
        assert failed.value.command == command
        assert "No such file" in failed.value.cause


async def test_a_sink_may_have_enough(processes: Processes, tmp_path: Path) -> None:
    """TOL-234: reading stops early and the process is ended."""
    ended = await processes.run(
        ("/bin/sh", "-c", "yes"), cwd=tmp_path, environment=ENVIRONMENT, output=lambda chunk: False
    )
    assert ended == ProcessExit(143, "SIGTERM", "enough")


async def test_no_input_and_no_foreign_descriptors(processes: Processes, tmp_path: Path) -> None:
    """TOL-210, TOL-220: it reads an empty stream and inherits 0 to 2 alone, even of what was made inheritable."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    try:
        ended, text = await run(processes, "cat; ls /proc/$$/fd", tmp_path)
    finally:
        os.close(reading)
        os.close(writing)
    assert ended.code == 0
    assert set(text.split()) == {"0", "1", "2"}


# -- the end of the tree -------------------------------------------------------------------------------------------


async def test_a_background_child_holding_the_pipe_does_not_hold_the_call(processes: Processes, tmp_path: Path) -> None:
    """TOL-219, TOL-342: the call ends with the leader, and the child goes with it."""
    async with asyncio.timeout(10):
        ended, text = await run(processes, "sleep 1000 & echo $!", tmp_path)
    assert ended == ProcessExit(0, None, "exit")
    assert await gone(pids(text)[0])


async def test_a_child_with_its_output_elsewhere_goes_too(processes: Processes, tmp_path: Path) -> None:
    """TOL-219: members of the group that hold no pipe."""
    _, text = await run(processes, "sleep 1000 >/dev/null 2>&1 & echo $!", tmp_path)
    assert await gone(pids(text)[0])


@pytest.mark.parametrize("streams", ["", ">/dev/null 2>&1"])
async def test_one_that_left_the_session_is_found(processes: Processes, tmp_path: Path, streams: str) -> None:
    """TOL-219: by the marker in its environment, whether or not it holds the pipe."""
    command = f"setsid sh -c 'echo $$ > escaped; exec sleep 1000' {streams} & while ! [ -s escaped ]; do :; done"
    await run(processes, command, tmp_path)
    assert await gone(pids((tmp_path / "escaped").read_text(encoding="utf-8"))[0])


async def test_a_timeout_ends_the_command_and_says_so(processes: Processes, tmp_path: Path) -> None:
    """TOL-218, TOL-221: and says so."""
    ended, _ = await run(processes, "exec sleep 1000", tmp_path, timeout=0.2)
    assert ended == ProcessExit(143, "SIGTERM", "timeout")


async def test_the_tree_is_ended_politely(call: Start) -> None:
    """TOL-218: SIGTERM first, to leader and children alike; the call returns after they are gone."""
    running = call("trap 'echo bye; exit' TERM; sh -c 'echo $$; exec sleep 1000' & wait")
    child = pids(await running.says("\n"))[0]
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    assert "bye" in running.output.text()
    assert not alive(child)


@pytest.mark.parametrize("deaf", ["trap '' TERM; echo $$; sleep 1000; sleep 1000", "echo $$; kill -STOP $$"])
async def test_a_group_that_ignores_sigterm_is_killed(call: Start, monkeypatch: pytest.MonkeyPatch, deaf: str) -> None:
    """TOL-218: SIGKILL to the group after the wait, then the reaping; whether it ignores the signal or is stopped."""
    monkeypatch.setattr("holdfast.core.process.process.TERM_SECONDS", 0.2)
    running = call(deaf)
    leader = pids(await running.says("\n"))[0]
    async with asyncio.timeout(20):
        while "STOP" in deaf and _state(leader) != "T":  # noqa: ASYNC110 - nothing tells when a process is stopped
            await asyncio.sleep(0.01)
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    assert not Path(f"/proc/{leader}").exists()


async def test_ending_a_tree_is_bounded(call: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-218: four seconds, less than an interruption waits; told by the constants, since a machine adds its
    own, and by one command that does everything to stay."""
    assert END_SECONDS <= 4.0 < GRACE_SECONDS
    monkeypatch.setattr("holdfast.core.process.process.TERM_SECONDS", 0.2)
    running = call("trap '' TERM; setsid sh -c \"trap '' TERM; sleep 1000\" & echo $!; while :; do sleep 1000; done")
    child = pids(await running.says("\n"))[0]
    loop = asyncio.get_running_loop()
    started = loop.time()
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    assert 0.2 <= loop.time() - started < 10 * END_SECONDS
    assert not alive(child)


async def test_the_leader_is_reaped_last(processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-218: also where the end is noticed by looking: until then its number cannot be another's."""
    kill, leaders = os.killpg, []

    def note(group: int, number: int) -> None:
        leaders.append(_state(group))
        kill(group, number)

    def refused(pid: int) -> int:
        raise OSError("no such call here")

    monkeypatch.setattr(os, "killpg", note)
    monkeypatch.setattr(os, "pidfd_open", refused)
    assert (await run(processes, "sleep 1000 & exit 3", tmp_path))[0] == ProcessExit(3, None, "exit")
    assert set(leaders) == {"Z"}


@pytest.mark.parametrize("again", [0, 1, 3])
async def test_cancelling_ends_the_tree_first(call: Start, again: int) -> None:
    """TOL-218, TOL-219, TOL-221: the cancellation goes on when everything is dead, however often it is repeated."""
    running = call("setsid sleep 1000 & sleep 1001 & echo $$ $!; sleep 1002")
    found = pids(await running.says(" "))
    running.task.cancel()
    for _ in range(again):
        await asyncio.sleep(0)
        running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    assert not any(map(alive, found))


async def test_closing_ends_what_runs_and_starts_no_more(processes: Processes, call: Start, tmp_path: Path) -> None:
    """TOL-218: the calls return with what ended them."""
    running = [call("echo $$; sleep 1000") for _ in range(3)]
    found = [pids(await one.says("\n"))[0] for one in running]
    await processes.close()
    assert [(await one.task).cause for one in running] == ["closed"] * 3
    assert not any(map(alive, found))
    with pytest.raises(ProcessError):
        await run(processes, "true", tmp_path)


async def test_a_process_tree_beyond_its_limit_is_killed(tmp_path: Path) -> None:
    """TOL-219, TOL-324: a tree that grows beyond its limit, counted by group and by marker."""
    processes = Processes(tree_limit=20)
    command = "i=0; while [ $i -lt 40 ]; do sleep 1000 & echo $!; setsid sleep 1000 & i=$((i+1)); done; wait"
    ended, text = await run(processes, command, tmp_path, timeout=20)
    await processes.close()
    assert ended.cause == "storm"
    assert all([await gone(pid) for pid in pids(text)])


async def test_processes_of_others_that_end_do_not_hide_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-219: the number of processes of the whole system says nothing."""
    monkeypatch.setattr(tree, "system_entities", lambda: 100)
    monkeypatch.setattr(tree, "SURE_EVERY", 2)
    processes = Processes(tree_limit=20)
    command = "i=0; while [ $i -lt 40 ]; do sleep 1000 & i=$((i+1)); done; wait"
    ended, _ = await run(processes, command, tmp_path, timeout=20)
    await processes.close()
    assert ended.cause == "storm"


async def test_a_large_tree_within_the_limit_is_left_alone(tmp_path: Path) -> None:
    """TOL-219: what the whole system does is no reason to stop one command."""
    processes = Processes(tree_limit=20)
    others = [await asyncio.create_subprocess_exec("sleep", "1000") for _ in range(25)]
    try:
        ended, _ = await run(processes, "sleep 0.5", tmp_path)
    finally:
        for other in others:
            other.kill()
            await other.wait()
        await processes.close()
    assert ended == ProcessExit(0, None, "exit")


# -- bounds --------------------------------------------------------------------------------------------------------


async def test_no_more_than_the_limit_run_at_once(tmp_path: Path) -> None:
    """TOL-039: the others wait in order; one that is cancelled while it waits never starts."""
    processes = Processes(limit=2)
    try:
        release = tmp_path / "release"
        held = f"while ! [ -e {release} ]; do sleep 0.01; done"
        first = [Call(processes, f"echo started; {held}", tmp_path) for _ in range(2)]
        for one in first:
            await one.says("started")
        waiting = [Call(processes, f"touch ran{name}", tmp_path) for name in "abc"]
        waiting[1].task.cancel()
        with suppress(asyncio.CancelledError):
            await waiting[1].task
        assert not list(tmp_path.glob("ran*"))
        release.touch()
        assert [(await one.task).code for one in (*first, waiting[0], waiting[2])] == [0] * 4
        assert {path.name for path in tmp_path.glob("ran*")} == {"rana", "ranc"}
    finally:
        await processes.close()


async def test_many_calls_leave_no_zombie_and_no_descriptor(processes: Processes, tmp_path: Path) -> None:
    """TOL-220: also when some start children, time out, are cancelled or cannot start."""

    async def one(number: int) -> None:
        commands = ("true", "echo x; exit 3", "sleep 1000 >/dev/null 2>&1 &", "kill -KILL $$", "sleep 1000")
        with suppress(ProcessError):
            folder = tmp_path if number % 7 else tmp_path / "absent"
            await run(processes, commands[number % 5], folder, timeout=0.05 if number % 5 == 4 else 30)

    others = _children()
    await one(1)
    descriptors = len(os.listdir("/proc/self/fd"))
    await asyncio.gather(*(one(number) for number in range(100)))
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert _children() - others == 1, "the watchdog"


async def test_a_flood_of_output_is_read_in_constant_memory(processes: Processes, tmp_path: Path) -> None:
    """TOL-221, TOL-323: 128 MiB pass through a sink of 1 KiB."""
    output = Capture(1024)
    command = ("/bin/sh", "-c", "head -c 134217728 /dev/zero")
    ended = await processes.run(command, cwd=tmp_path, environment=ENVIRONMENT, output=output)
    assert (ended.code, len(output.bytes()), output.truncated) == (0, 1024, True)


async def test_a_new_session_without_code_in_the_child(processes: Processes, tmp_path: Path) -> None:
    """TOL-218, TOL-343: the child leads its own session and group; nothing of ours runs between fork and exec."""
    _, text = await run(processes, "echo $$; cut -d' ' -f5,6 /proc/$$/stat", tmp_path)
    leader, group, session = pids(text)
    assert leader == group == session
    source = Path(__file__).parents[3] / "src/holdfast"
    assert not [path for path in source.rglob("*.py") if "preexec_fn" in path.read_text(encoding="utf-8")]


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def _children() -> int:
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                count += int(fields[1]) == os.getpid()
    return count
