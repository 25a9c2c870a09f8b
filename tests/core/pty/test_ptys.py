"""The terminals of a Location, with real shells."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from pathlib import Path

import pytest
from tests.core.pty.conftest import SECRETS
from tests.core.pty.desk import PtyDesk, alive, eventually

from holdfast.core.clock import Ids
from holdfast.core.pty import process
from holdfast.core.pty.errors import PtyExited as Exited
from holdfast.core.pty.errors import PtyNotFound, PtyNotStarted, TooManyPtys
from holdfast.core.pty.process import POLL_SECONDS, PtyProcess
from holdfast.core.pty.ptys import EXITED_LIMIT, RUNNING_LIMIT, PtySettings
from holdfast.schema.pty import Pty, PtyCreated, PtyDeleted, PtyExited, PtySize, PtyUpdated

pytestmark = pytest.mark.anyio


async def test_a_terminal_opens_the_preferred_shell_here(desk: PtyDesk) -> None:
    """TOL-286, TOL-287: the configured shell as a login shell in the Location, with a title from its id."""
    info = desk.ptys.create()
    assert info == Pty(
        id=info.id,
        title=f"Terminal {info.id[-4:]}",
        command="/bin/sh",
        args=("-l",),
        cwd=str(desk.directory),
        status="running",
        pid=info.pid,
    )
    assert info.id.startswith("pty_")
    assert alive(info.pid)
    watcher = desk.watch(info.id)
    await watcher.type("pwd; exit 3\n")
    text, code = await watcher.rest()
    assert f"{desk.directory}\r\n" in text
    assert code == 3
    assert desk.ptys.list() == (desk.ptys.get(info.id),)
    assert (desk.ptys.get(info.id).status, desk.ptys.get(info.id).exit_code) == ("exited", 3)


async def test_the_users_shell_is_next(project: Path, ids: Ids) -> None:
    """TOL-287: without a configured one."""
    desk = PtyDesk(project, ids, {"SHELL": "/bin/dash"})
    desk.settings = PtySettings()
    assert desk.ptys.create().command == "/bin/dash"
    await desk.ptys.close()


@pytest.mark.parametrize(
    ("command", "args", "given"),
    [
        ("/bin/sh", (), ("-l",)),
        ("bash", (), ("-l",)),
        ("/bin/sh", ("-i",), ("-i",)),
        ("cat", (), ()),
    ],
)
async def test_a_login_shell_only_without_arguments(
    desk: PtyDesk, command: str, args: tuple[str, ...], given: tuple[str, ...]
) -> None:
    """TOL-287, TOL-288: `-l` is for shells that know it, and never added to what a caller chose."""
    assert desk.ptys.create(command=command, args=args).args == given


async def test_a_terminal_starts_relative_to_the_location(desk: PtyDesk, tmp_path: Path) -> None:
    """TOL-288: relative to the Location; elsewhere, unless the host denies it."""
    (desk.directory / "sub").mkdir()
    (desk.directory / "out").symlink_to(tmp_path)
    assert desk.ptys.working_directory(None) == desk.ptys.working_directory("") == str(desk.directory)
    assert desk.ptys.working_directory("sub") == str(desk.directory / "sub")
    assert desk.ptys.create(command="cat", cwd=str(tmp_path)).cwd == str(tmp_path)
    desk.settings = PtySettings(external_paths="deny")
    assert desk.ptys.working_directory("sub") == str(desk.directory / "sub")
    for outside in ("..", "out", "/"):
        with pytest.raises(PtyNotStarted, match="is outside the Location"):
            desk.ptys.working_directory(outside)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"cwd": "missing"}, "missing is not a directory"),
        ({"cwd": "hello.txt"}, "hello.txt is not a directory"),
        ({"cwd": "a\0b"}, "a\\0b is not a directory"),
        ({"command": "no-such-program"}, "no-such-program is not an executable program"),
        ({"command": "./hello.txt"}, "./hello.txt is not an executable program"),
        ({"command": "/bin"}, "/bin is not an executable program"),
        ({"command": "cat\0"}, "cat\\0 is not an executable program"),
        ({"command": "cat", "args": ("a\0b",)}, "embedded null byte"),
        ({"command": "cat", "args": ("x" * 4_000_000,)}, "Argument list too long"),
        ({"command": "cat", "env": {"A=B": "c"}}, "illegal environment variable name"),
    ],
)
async def test_a_terminal_that_cannot_start_is_a_typed_error(desk: PtyDesk, asked: dict[str, str], reason: str) -> None:
    """TOL-288: and leaves nothing behind."""
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PtyNotStarted) as caught:
        desk.ptys.create(**asked)  # type: ignore[arg-type]
    assert caught.value.reason == reason
    assert (desk.ptys.list(), desk.announced, desk.ptys.busy) == ((), [], False)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_terminal_variables_are_the_hosts_then_the_callers_then_the_forced_ones(project: Path, ids: Ids) -> None:
    """TOL-289, TOL-291: the host's, then the caller's, then the forced ones; PWD is right without anyone's help."""
    desk = PtyDesk(project, ids, {"LANG": "C", "TZ": "UTC", "TERM": "dumb"})
    text = await desk.output(
        'echo "$LANG $TZ $TERM $OPENCODE_TERMINAL $MINE $PWD"',
        TZ="Europe/Oslo",
        TERM="vt52",
        OPENCODE_TERMINAL="0",
        MINE="yes",
    )
    assert text == f"C Europe/Oslo xterm-256color 1 yes {project}\r\n"
    await desk.ptys.close()


async def test_secrets_of_the_runtime_do_not_reach_a_terminal(desk: PtyDesk) -> None:
    """TOL-291, TOL-319: not in the terminal's variables, output or events; unless a host passes one on by name."""
    text = await desk.output("env")
    assert "HOME=" in text
    assert not [secret for secret in SECRETS.values() if secret in text or secret in repr(desk.announced)]
    desk.settings = PtySettings(passed=("EXA_API_KEY",))
    assert "EXA_API_KEY=canary-exa" in await desk.output("env")


async def test_somebody_sits_at_a_terminal(desk: PtyDesk) -> None:
    """TOL-289: the values that silence unattended commands are no layer of its environment."""
    text = await desk.output("env")
    assert not [line for line in text.splitlines() if line.startswith(("PAGER=", "NO_COLOR=", "GIT_TERMINAL_PROMPT="))]


async def test_the_terminal_controls_its_session(desk: PtyDesk) -> None:
    """TOL-295: it has a foreground group, so a typed interrupt reaches the program, whose death has a number."""
    watcher = desk.watch(desk.run("echo its own >/dev/tty; exec sleep 1000").id)
    await watcher.until("its own")
    await watcher.type("\x03")
    assert (await watcher.rest())[1] == 128 + 2


async def test_a_death_by_signal_has_a_number(desk: PtyDesk) -> None:
    """TOL-295: 128 and the signal's."""
    info = desk.run("kill -USR1 $$")
    await desk.watch(info.id).rest()
    assert desk.ptys.get(info.id).exit_code == 128 + 10


async def test_updating_changes_title_and_size(desk: PtyDesk) -> None:
    """TOL-292: an empty title is none; the program hears of its new size."""
    info = desk.run("trap 'stty size' WINCH; stty size; while :; do read -r _; done")
    watcher = desk.watch(info.id)
    await watcher.until("24 80")
    updated = desk.ptys.update(info.id, title="mine", size=PtySize(rows=30, cols=100))
    await watcher.until("30 100")
    assert updated.title == "mine"
    assert desk.ptys.update(info.id, title="") == updated == desk.ptys.get(info.id)


async def test_an_exited_terminal_is_there_but_deaf(desk: PtyDesk) -> None:
    """TOL-292, TOL-298: no size, no input, nothing to attach to; its title can be changed."""
    info = desk.run("exit 0")
    await desk.watch(info.id).rest()
    await desk.ptys.write(info.id, "ignored")
    assert desk.ptys.update(info.id, title="done", size=PtySize(rows=1, cols=1)).title == "done"
    with pytest.raises(Exited):
        desk.watch(info.id)


async def test_an_unknown_terminal_id_is_refused_by_every_operation(desk: PtyDesk) -> None:
    """TOL-292: whatever is asked of them."""

    def attach() -> None:
        desk.watch("pty_none")

    for ask in (lambda: desk.ptys.get("pty_none"), lambda: desk.ptys.update("pty_none"), attach):
        with pytest.raises(PtyNotFound) as caught:
            ask()
        assert (caught.value.pty_id, caught.value.code) == ("pty_none", "PtyNotFoundError")
    for awaited in (desk.ptys.remove("pty_none"), desk.ptys.write("pty_none", "x")):
        with pytest.raises(PtyNotFound):
            await awaited


async def test_terminals_announce_creation_change_exit_and_removal(desk: PtyDesk) -> None:
    """TOL-293, TOL-294: creation, change, exit, removal, each with what it is about."""
    info = desk.run("read -r _; exit 4")
    changed = desk.ptys.update(info.id, title="new")
    watcher = desk.watch(info.id)
    await watcher.type("\n")
    await watcher.rest()
    await desk.ptys.remove(info.id)
    assert desk.announced == [
        PtyCreated(info=info),
        PtyUpdated(info=changed),
        PtyExited(id=info.id, exit_code=4),
        PtyDeleted(id=info.id),
    ]


async def test_only_the_newest_exits_are_kept(desk: PtyDesk) -> None:
    """TOL-294: the oldest exit goes first, whenever it was created; running terminals stay."""
    stays = desk.run("read -r _")
    first = desk.run("read -r _")
    others = [desk.run("read -r _") for _ in range(EXITED_LIMIT)]
    for info in (*others, first):
        watcher = desk.watch(info.id)
        await watcher.type("\n")
        await watcher.rest()
    assert desk.announced[-1] == PtyDeleted(id=others[0].id)
    assert [info.id for info in desk.ptys.list()] == [stays.id, first.id, *(info.id for info in others[1:])]


async def test_removal_ends_process_and_watchers(desk: PtyDesk) -> None:
    """TOL-294, TOL-300: the watcher gets what was said, then an end without a code; no exit is announced."""
    info = desk.run("echo ready; exec sleep 1000")
    watcher = desk.watch(info.id)
    await watcher.until("ready")
    await desk.ptys.remove(info.id)
    assert await watcher.rest() == ("ready\r\n", None)
    assert not alive(info.pid)
    assert desk.announced[1:] == [PtyDeleted(id=info.id)]
    assert (desk.ptys.list(), desk.ptys.busy) == ((), False)


async def test_removal_reaches_every_job_of_the_session(desk: PtyDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-295: first a hangup, then a kill, also for groups of their own that ignore the hangup."""
    monkeypatch.setattr(process, "HANGUP_SECONDS", 0.2)
    script = "set -m; (trap '' HUP; echo pid:$$:; exec sleep 1000) & echo job:$!:; trap 'echo bye; exit 9' HUP; wait"
    info = desk.ptys.create(command="bash", args=("-c", script))
    text = await desk.watch(info.id).until(lambda text: "job:" in text and "pid:" in text)
    job = int(text.partition("job:")[2].partition(":")[0])
    assert os.getpgid(job) != os.getpgid(info.pid)
    await desk.ptys.remove(info.id)
    await eventually(lambda: not alive(job))
    assert not alive(info.pid)


async def test_a_process_with_its_own_session_outlives_its_terminal(desk: PtyDesk) -> None:
    """TOL-295: the kill is for the terminal's groups; a multiplexer's server outlives the terminal that started it."""
    info = desk.run("setsid sh -c 'echo pid:$$:; exec sleep 1000' & wait")
    text = await desk.watch(info.id).until(lambda text: text.count(":") == 2)
    pid = int(text.split(":")[1])
    await desk.ptys.remove(info.id)
    assert alive(pid)
    os.kill(pid, 9)


async def test_a_cancelled_removal_goes_on(desk: PtyDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-295: whoever asked may go; the process still ends and is reaped."""
    monkeypatch.setattr(process, "HANGUP_SECONDS", 0.1)
    info = desk.run("trap '' HUP; echo ready; while :; do sleep 1; done")
    await desk.watch(info.id).until("ready")
    removal = asyncio.create_task(desk.ptys.remove(info.id))
    await asyncio.sleep(0)
    removal.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await removal
    assert desk.ptys.busy
    await eventually(lambda: not desk.ptys.busy)
    assert not alive(info.pid)


async def test_only_so_many_run_at_once(desk: PtyDesk) -> None:
    """TOL-295: one exit makes room for one more."""
    infos = [desk.ptys.create(command="cat") for _ in range(RUNNING_LIMIT)]
    with pytest.raises(TooManyPtys) as caught:
        desk.ptys.create(command="cat")
    assert caught.value.limit == RUNNING_LIMIT == len(desk.ptys.list())
    await desk.ptys.remove(infos[7].id)
    assert desk.ptys.create(command="cat").status == "running"


async def test_closing_the_location_ends_everything(desk: PtyDesk) -> None:
    """TOL-294: processes, watchers, entries; and nothing starts afterwards."""
    infos = [desk.run("echo ready; exec sleep 1000") for _ in range(3)]
    watchers = [desk.watch(info.id) for info in infos]
    for watcher in watchers:
        await watcher.until("ready")
    before = len(os.listdir("/proc/self/fd"))
    await desk.ptys.close()
    assert [(await watcher.rest())[1] for watcher in watchers] == [None] * 3
    assert not any(alive(info.pid) for info in infos)
    assert desk.ptys.list() == ()
    assert len(os.listdir("/proc/self/fd")) == before - 2 * len(infos)
    with pytest.raises(PtyNotStarted):
        desk.ptys.create()


async def test_a_background_child_does_not_keep_a_terminal_open(desk: PtyDesk) -> None:
    """TOL-294: a terminal exits with its leader, though a background child still has it open."""
    watcher = desk.watch(desk.run("trap '' HUP; sleep 1000 & echo pid:$!:; exit 5").id)
    text, code = await watcher.rest()
    assert code == 5
    os.kill(int(text.split(":")[1]), 9)


async def test_typing_waits_for_a_program_that_does_not_read(desk: PtyDesk, tmp_path: Path) -> None:
    """TOL-313: what is typed meanwhile is held up to a bound, and arrives whole."""
    os.mkfifo(tmp_path / "gate")
    data = "".join(f"{number:07}\n" for number in range(100_000))
    script = f"stty raw -echo; printf ready; cat '{tmp_path}/gate'; head -c {len(data)} | sha256sum"
    watcher = desk.watch(desk.run(script).id)
    await watcher.until("ready")
    typing = asyncio.create_task(watcher.type(data))
    _, unfinished = await asyncio.wait({typing}, timeout=0.1)
    assert unfinished == {typing}
    await asyncio.to_thread((tmp_path / "gate").write_text, "go")
    await typing
    text, _ = await watcher.rest()
    assert hashlib.sha256(data.encode()).hexdigest() in text


async def test_output_without_a_reader_is_read_and_the_newest_retained(desk: PtyDesk) -> None:
    """TOL-296, TOL-302: output without a reader is read on; the newest is retained, the cursor counts all."""
    info = desk.run("head -c 3000000 /dev/zero | tr '\\0' x; printf end; read -r _")
    watcher = desk.watch(info.id, cursor=-1)
    await eventually(lambda: desk.ptys.replay(info.id, -1).cursor == 3_000_003)
    replay = desk.ptys.replay(info.id)
    assert replay.text == "x" * (2_097_152 - 3) + "end"
    assert desk.ptys.replay(info.id, 3_000_000).text == "end"
    watcher.attachment.detach()


async def test_the_last_words_of_a_process_are_not_lost(desk: PtyDesk) -> None:
    """TOL-294, TOL-299: also when they are noticed together with its exit, by a loop that was held up."""
    info = desk.run("head -c 9000 /dev/zero | tr '\\0' x; printf end")
    watcher, deadline = desk.watch(info.id), time.monotonic() + 20
    while alive(info.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)  # noqa: ASYNC251 - holding the loop up is the point
    assert await watcher.rest() == ("x" * 9_000 + "end", 0)


async def test_a_terminal_that_closes_itself_goes_on(desk: PtyDesk, tmp_path: Path) -> None:
    """TOL-294: its exit is the process's, not the end of what it prints."""
    os.mkfifo(tmp_path / "gate")
    info = desk.run(f"exec </dev/null >/dev/null 2>&1; read -r _ <'{tmp_path}/gate'; exit 6")
    watcher = desk.watch(info.id)
    await asyncio.to_thread((tmp_path / "gate").write_text, "go\n")
    assert await watcher.rest() == ("", 6)


async def test_a_terminal_that_ended_closed_leaves_its_descriptor_alone(tmp_path: Path) -> None:
    """TOL-302: nobody held it open when its child ended; whoever gets the number next is not read from."""
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    heard: list[bytes] = []
    terminal = PtyProcess(
        ("/bin/sh", "-c", "exec </dev/null >/dev/null 2>&1; sleep 0.2"),
        cwd=str(tmp_path),
        environment={"PATH": os.environ["PATH"]},
        output=heard.append,
        exited=ended.set_result,
    )
    number = terminal._master
    assert await ended == 0
    pipes = [os.pipe() for _ in range(8)]
    try:
        reading = {read: write for read, write in pipes}
        assert number in reading or number in reading.values(), "the number is used again"
        for write in reading.values():
            os.write(write, b"of somebody else")
        await asyncio.sleep(3 * POLL_SECONDS)
        assert [os.read(read, 100) for read in reading] == [b"of somebody else"] * 8
        assert heard == []
    finally:
        for pipe in pipes:
            for end in pipe:
                os.close(end)


async def test_a_terminal_that_is_opened_again_is_read_again(desk: PtyDesk, tmp_path: Path) -> None:
    """TOL-302: nobody held it open for a while; whoever does later is not held up by more than it takes in."""
    os.mkfifo(tmp_path / "gate")
    script = (
        f"exec </dev/null >/dev/null 2>&1; read -r _ <'{tmp_path}/gate'; head -c 30000 /dev/zero | tr '\\0' x >/dev/tty"
    )
    info = desk.run(script)
    watcher = desk.watch(info.id)
    await asyncio.to_thread((tmp_path / "gate").write_text, "go\n")
    assert await watcher.rest() == ("x" * 30_000, 0)
