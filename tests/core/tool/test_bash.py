"""The `bash` tool: what it asks, what it runs, what it says, and what it leaves behind when it is cut."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.tool.tool_support import Recorder, caller, texts

from holdfast.core.clock import Ids, SystemClock
from holdfast.core.filesystem.location_path import LocationPaths
from holdfast.core.process.process import Processes
from holdfast.core.tool.builtin import bash as module
from holdfast.core.tool.builtin.bash import DESCRIPTION, BashInput, BashSettings, bash_tool
from holdfast.core.tool.command_output import CommandOutput
from holdfast.core.tool.output import OutputStore
from holdfast.core.tool.progress import reporting
from holdfast.core.tool.tool import CallOutput, ToolFailure
from holdfast.schema.session_message import TextContent

pytestmark = pytest.mark.anyio
HOST = {"PATH": os.environ["PATH"], "HOME": "/home/me"}
Bash = Callable[..., Awaitable[CallOutput]]


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    processes = Processes()
    yield processes
    await processes.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "work"
    (folder / "sub").mkdir(parents=True)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> OutputStore:
    return OutputStore(tmp_path / "data" / "tool-output", Ids(SystemClock()), SystemClock())


def made(root: Path, processes: Processes, authorizer: Recorder | None = None, **options: Any) -> Bash:
    options = {"host": HOST, **options}
    return caller("bash", bash_tool(LocationPaths(root), processes, authorizer or Recorder(), **options))


@pytest.fixture
def bash(root: Path, processes: Processes, store: OutputStore) -> Bash:
    return made(root, processes, store=store)


# -- input and results ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, -1, 600_001, 1.5, "1", True, None])
async def test_a_wrong_timeout_is_refused(bash: Bash, timeout: Any) -> None:
    """TOL-203: whole milliseconds within the bounds."""
    with pytest.raises(ToolFailure, match="Invalid tool input"):
        await bash(command="true", timeout=timeout)


async def test_the_bash_tool_has_three_parameters(root: Path, processes: Processes) -> None:
    """TOL-203, TOL-205: no background, no description; and the model is told that this is no sandbox."""
    assert BashInput.__struct_fields__ == ("command", "workdir", "timeout")
    assert module.DEFAULT_TIMEOUT == 120_000
    assert "no sandbox" in DESCRIPTION


@pytest.mark.parametrize(
    ("command", "structured", "content"),
    [
        ("echo hi", {"exit": 0, "truncated": False}, ["hi\n", "Command exited with code 0."]),
        ("true", {"exit": 0, "truncated": False}, ["(no output)", "Command exited with code 0."]),
        ("echo a; echo b >&2; exit 3", {"exit": 3, "truncated": False}, ["a\nb\n", "Command exited with code 3."]),
        (
            "no_such_command_here 2>/dev/null",
            {"exit": 127, "truncated": False},
            ["(no output)", "Command exited with code 127."],
        ),
        (
            "echo dying; kill -TERM $$",
            {"exit": 143, "truncated": False},
            ["dying\n", "Command exited with code 143 (terminated by signal SIGTERM)."],
        ),
    ],
)
async def test_a_failing_command_is_a_result_with_its_exit_code(
    bash: Bash, command: str, structured: dict[str, Any], content: list[str]
) -> None:
    """TOL-210, TOL-212, TOL-213, TOL-215: code and output; a failing command is no failing call."""
    output = await bash(command=command)
    assert output.structured == structured
    assert texts(output) == content


async def test_a_timeout_keeps_what_was_said(bash: Bash) -> None:
    """TOL-212, TOL-214, TOL-215: no code, but the output so far, and how to do better."""
    output = await bash(command="echo so far; sleep 1000", timeout=700)
    assert output.structured == {"truncated": False, "timeout": True}
    text, remarks = texts(output)
    assert text == "so far\n"
    assert remarks.startswith("Timed out after 700 ms")
    assert remarks.endswith("Command timed out before completion.")


async def test_large_output_is_cut_in_the_text_and_whole_in_a_managed_file(bash: Bash) -> None:
    """TOL-211, TOL-216: both ends in the text, everything in a managed file that the settlement will name."""
    output = await bash(command="echo first; yes middle | head -n 300000; echo last")
    assert output.structured == {"exit": 0, "truncated": True}
    text = texts(output)[0]
    assert text.startswith("first\nmiddle\n")
    assert text.endswith("middle\nlast\n")
    (path,) = output.output_paths
    data = Path(path).read_bytes()
    assert data == b"first\n" + b"middle\n" * 300_000 + b"last\n"
    assert len(text.encode()) < 50 * 1024


async def test_the_whole_command_reaches_the_shell(bash: Bash) -> None:
    """TOL-318: every byte, line ends, quotes and unseen characters among them."""
    output = await bash(command="printf '%s|' 'a\nb' \"\u202ec\" $'\u200b'; echo é")
    assert texts(output)[0].startswith("a\nb|\u202ec|")
    assert texts(output)[0].endswith("é\n")


async def test_the_shell_is_configurable(root: Path, processes: Processes) -> None:
    """TOL-210: one that speaks another language is not used; there is no login flag."""
    for shell, name in (("bash", "bash"), (None, "sh"), ("fish", "sh"), ("absent", "sh")):
        bash = made(root, processes, settings=lambda shell=shell: BashSettings(shell=shell))
        output = await bash(command="tr '\\0' ' ' < /proc/$$/cmdline")
        program, *rest = texts(output)[0].split(" ")
        assert program.rpartition("/")[2] == name
        assert rest[0] == "-c"


# -- environment ---------------------------------------------------------------------------------------------------


async def test_secrets_do_not_reach_a_command(root: Path, processes: Processes, store: OutputStore) -> None:
    """TOL-222, TOL-223, TOL-319: unless they are configured."""
    secrets = {"ANTHROPIC_API_KEY": "canary", "OPENCODE_SERVER_PASSWORD": "canary", "EXA_API_KEY": "canary"}
    settings = BashSettings(passed=("NAMED",), values={"PLUGIN": "given"})
    bash = made(root, processes, host={**HOST, **secrets, "NAMED": "1"}, settings=lambda: settings, store=store)
    output = await bash(command="env; cat /proc/$$/environ | tr '\\0' '\\n'")
    assert "canary" not in str(output)
    for line in ("NAMED=1", "PLUGIN=given", "GIT_TERMINAL_PROMPT=0", "PAGER=cat", "NO_COLOR=1", "OPENCODE=1"):
        assert f"{line}\n" in texts(output)[0]


# -- approval ------------------------------------------------------------------------------------------------------


async def test_a_command_line_asks_once_for_all_its_simple_commands(root: Path, processes: Processes) -> None:
    """TOL-204, TOL-206, TOL-224, TOL-363: one request for all simple commands; first the exact text may be saved."""
    asking = Recorder()
    await made(root, processes, asking)(command="echo a | cat")
    (asked,) = asking.asked
    assert asked.action == "bash"
    assert asked.resources == ("echo a", "cat")
    assert asked.save == ("echo a | cat", "echo *", "cat *")
    about = {"command": "echo a | cat", "workdir": ".", "directory": str(root)}
    assert asked.metadata == {**about, "warnings": []}


async def test_a_working_directory_outside_is_approved_first(root: Path, processes: Processes, tmp_path: Path) -> None:
    """TOL-204, TOL-318: then the command itself."""
    outside = tmp_path.resolve() / "outside"
    outside.mkdir()
    asking = Recorder()
    output = await made(root, processes, asking)(command="pwd", workdir=str(outside))
    assert texts(output)[0] == f"{outside}\n"
    assert asking.actions == ["external_directory", "bash"]
    assert asking.asked[0].resources == asking.asked[0].save == (f"{outside}/*",)


@pytest.mark.parametrize("denied", ["external_directory", "bash"])
async def test_a_denied_command_does_not_run(root: Path, processes: Processes, tmp_path: Path, denied: str) -> None:
    """TOL-204: of either approval; after the first, the second is not asked."""
    outside = tmp_path.resolve() / "outside"
    outside.mkdir()
    asking = Recorder(denied)
    with pytest.raises(ToolFailure, match="Permission denied"):
        await made(root, processes, asking)(command="touch ran", workdir=str(outside))
    assert asking.actions[-1] == denied
    assert not (outside / "ran").exists()


@pytest.mark.parametrize("swapped", ["gone", "file", "link"])
async def test_a_working_directory_that_changes_during_approval(
    root: Path, processes: Processes, tmp_path: Path, swapped: str
) -> None:
    """TOL-204: is checked again; nothing is executed, here or where a link leads."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def meanwhile() -> None:
        (root / "sub").rmdir()
        if swapped == "file":
            (root / "sub").touch()
        if swapped == "link":
            (root / "sub").symlink_to(elsewhere)

    with pytest.raises(ToolFailure, match="Unable to execute command: touch ran"):
        await made(root, processes, Recorder(meanwhile=meanwhile))(command="touch ran", workdir="sub")
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize(
    "workdir", ["..", "../outside", "absent", "file", "link", "", "a\0b", "/proc/self", "x" * 5000]
)
async def test_a_bad_working_directory_asks_nothing(root: Path, processes: Processes, workdir: str) -> None:
    """TOL-204, TOL-213: escapes, what is missing, what is no directory."""
    (root / "file").touch()
    (root / "link").symlink_to("/")
    asking = Recorder()
    with pytest.raises(ToolFailure, match="Unable to execute command: touch ran"):
        await made(root, processes, asking)(command="touch ran", workdir=workdir)
    assert asking.asked == []


async def test_outside_paths_are_denied_by_setting(root: Path, processes: Processes, tmp_path: Path) -> None:
    """TOL-115: without asking."""
    asking = Recorder()
    bash = made(root, processes, asking, settings=lambda: BashSettings(external_paths="deny"))
    with pytest.raises(ToolFailure):
        await bash(command="true", workdir=str(tmp_path))
    assert asking.asked == []


async def test_a_zero_byte_is_refused(root: Path, processes: Processes) -> None:
    """TOL-318: before anything is asked."""
    asking = Recorder()
    with pytest.raises(ToolFailure, match="NUL"):
        await made(root, processes, asking)(command="echo a\0b")
    assert asking.asked == []


async def test_a_shell_that_cannot_start(root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-213: a failure that names the command, in bounded length."""
    monkeypatch.setattr(module, "command_shell", lambda configured, environment: "/no/such/shell")
    with pytest.raises(ToolFailure, match="Unable to execute command: echo xxx") as failed:
        await made(root, processes)(command="echo " + "x" * 10_000)
    assert len(str(failed.value)) < 1000


async def test_warnings_about_paths_are_shown_and_never_asked_about(root: Path, processes: Processes) -> None:
    """TOL-207, TOL-208, TOL-209, TOL-212: shown to the person and to the model; never a question of their own."""
    asking = Recorder("external_directory")
    output = await made(root, processes, asking)(command="cat /etc/hostname/x > /dev/null 2>&1; true")
    warning = "Command argument references external directory /etc/hostname/*. This is advisory only."
    assert asking.actions == ["bash"]
    assert asking.asked[0].metadata["warnings"] == [warning]
    assert texts(output)[1] == f"Warnings:\n- {warning}\n\nCommand exited with code 0."


async def test_the_request_carries_the_exact_command_and_its_directory(root: Path, processes: Processes) -> None:
    """TOL-318, TOL-520: byte for byte what runs, hidden characters included; surfaces make these visible."""
    asking = Recorder()
    command = "echo 'rm \u202ex\u200b'  # a comment"
    await made(root, processes, asking)(command=command, workdir="sub")
    metadata = asking.asked[0].metadata
    assert (metadata["command"], metadata["workdir"], metadata["directory"]) == (command, "sub", str(root / "sub"))


@pytest.mark.parametrize(
    "command", ["cat < /dev/null", "[[ a ]] > /dev/null", "grep x /dev/null", "cat 2>/dev/null >/dev/stderr"]
)
async def test_streams_of_dev_are_no_external_directory(root: Path, processes: Processes, command: str) -> None:
    """TOL-208."""
    asking = Recorder()
    await made(root, processes, asking)(command=command)
    assert asking.asked[0].metadata["warnings"] == []


# -- while it runs -------------------------------------------------------------------------------------------------


class Progress:
    """What a Session would keep of a running call."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.changed = asyncio.Event()

    def __call__(self, structured: dict[str, Any], content: tuple[Any, ...]) -> None:
        self.texts += [part.text for part in content if isinstance(part, TextContent)]
        self.changed.set()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a command has said something."""
    heard = asyncio.Event()
    feed = CommandOutput.__call__

    def listen(output: CommandOutput, chunk: bytes) -> bool:
        heard.set()
        return feed(output, chunk)

    monkeypatch.setattr(CommandOutput, "__call__", listen)
    return heard


async def test_an_interruption_keeps_what_was_said(root: Path, processes: Processes, heard: asyncio.Event) -> None:
    """TOL-215, TOL-218: the partial output is reported, and the tree is gone, before the cancellation goes on."""
    progress = Progress()
    bash = made(root, processes)

    async def call() -> None:
        with reporting(progress):
            await bash(command="echo partial; sleep 1000")

    task = asyncio.create_task(call())
    await asyncio.wait_for(heard.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert progress.texts[-1] == "partial\n"
    assert not processes._running


async def test_progress_is_reported_while_it_runs(
    root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-227: the last bytes of the output, at a bounded cadence."""
    assert module.PROGRESS_SECONDS == 2.0
    monkeypatch.setattr(module, "PROGRESS_SECONDS", 0.05)
    progress = Progress()
    bash = made(root, processes)

    async def call() -> CallOutput:
        with reporting(progress, every=0):
            return await bash(command="yes | head -c 5000; echo newest; while ! [ -e go ]; do sleep 0.01; done")

    task = asyncio.create_task(call())
    async with asyncio.timeout(10):
        while not any(text.endswith("newest\n") for text in progress.texts):
            progress.changed.clear()
            await progress.changed.wait()
    (root / "go").touch()
    await task
    assert max(len(text.encode()) for text in progress.texts) <= module.PROGRESS_BYTES


async def test_closing_the_location_ends_a_command(root: Path, processes: Processes, heard: asyncio.Event) -> None:
    """TOL-218: with its output and the reason."""
    task = asyncio.ensure_future(made(root, processes)(command="echo said; sleep 1000"))
    await asyncio.wait_for(heard.wait(), 10)
    await processes.close()
    assert texts(await task) == ["said\n", "Command was stopped: its working directory was closed."]


async def test_a_call_that_waits_for_approval_holds_no_process_slot(root: Path) -> None:
    """TOL-039, TOL-346: with one place for processes, a call that waits for approval does not block another."""
    processes = Processes(limit=1)
    thinking, answer = asyncio.Event(), asyncio.Event()

    class Slow(Recorder):
        async def allow(self, *given: Any, **more: Any) -> None:
            thinking.set()
            await answer.wait()

    slow = asyncio.ensure_future(made(root, processes, Slow())(command="echo slow"))
    await thinking.wait()
    assert texts(await made(root, processes)(command="echo quick"))[0] == "quick\n"
    answer.set()
    assert texts(await slow)[0] == "slow\n"
    await processes.close()
