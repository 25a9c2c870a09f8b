"""`bash`: one command in a fresh shell, approved by its structure, ended with everything it started."""

import asyncio
import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from holdfast.core.filesystem.errors import PathError
from holdfast.core.filesystem.location_path import LocationPaths, Target
from holdfast.core.process.environment import child_environment
from holdfast.core.process.process import TREE_LIMIT, Ended, ProcessError, Processes
from holdfast.core.process.sandbox.confinement import SandboxSettings
from holdfast.core.process.sandbox.sandbox import Sandbox, SandboxRefused, Terms
from holdfast.core.shell.select import command_shell
from holdfast.core.tool.builtin.authorize import Authorizer
from holdfast.core.tool.command_output import CommandOutput
from holdfast.core.tool.output import OutputStore
from holdfast.core.tool.progress import report
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent, ToolContent

if TYPE_CHECKING:
    from holdfast.core.shell.approval import Approval

DEFAULT_TIMEOUT = 120_000
LONGEST_TIMEOUT = 600_000
PROGRESS_SECONDS = 2.0
PROGRESS_BYTES = 2048
SHOWN_COMMAND = 500
QUICK_CHARACTERS = 512
"""Commands up to this length are examined on the event loop, in about a millisecond."""

DESCRIPTION = (
    "Run a command in a shell and return its output and exit code. This is no sandbox: the command has the full "
    "authority of the user over files, processes and the network. It gets no input and no terminal, and whatever it "
    "leaves running is ended with it."
)
CONFINED = (
    "Run a command in a shell and return its output and exit code. The command runs in a sandbox: {writing}; files "
    "with credentials are hidden; {network}. It gets no input and no terminal, and whatever it leaves running is ended "
    "with it."
)
WRITING = {
    "read-only": "it can write only in $TMPDIR",
    "workspace": (
        "it can write only in the project directory and in $TMPDIR, and there not in opencode.json, .opencode, .envrc "
        "and what git executes (.git/hooks, .git/config)"
    ),
}
NETWORK = {
    "off": "there is no network",
    "proxy": "the network can be reached only through the HTTP proxy of the environment",
    "on": "the network can be reached",
}
IN_SANDBOX = "It ran in a sandbox: {summary}."
MAY_ESCAPE = (
    "If that is why it failed, call again with escape set to true: the user is asked whether it may run outside."
)
WITHOUT_SANDBOX = "{problem}. The command ran with the full authority of the user."
UNABLE = "Unable to execute command: {command}"
EXITED = "Command exited with code {code}."
KILLED = "Command exited with code {code} (terminated by signal {signal})."
TIMED_OUT = (
    "Timed out after {timeout} ms; pass a larger timeout for slow commands.\nCommand timed out before completion."
)
TOO_MANY_PROCESSES = f"Command was stopped: it had more than {TREE_LIMIT} processes at once."
CLOSED = "Command was stopped: its working directory was closed."
OUTSIDE = "Command argument references external directory {directory}/*. This is advisory only."


class BashInput(msgspec.Struct, frozen=True):
    command: Annotated[str, msgspec.Meta(description="The command, as the shell reads it")]
    workdir: (
        Annotated[str, msgspec.Meta(description="Where to run it; the project directory unless given")]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    timeout: (
        Annotated[int, msgspec.Meta(ge=1, le=LONGEST_TIMEOUT, description="Milliseconds until it is ended")]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class ConfinedBashInput(BashInput, frozen=True):
    """Where a sandbox is in force and a person can be asked."""

    escape: (
        Annotated[bool, msgspec.Meta(description="Run outside the sandbox. The user is asked for approval first")]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class BashResult(Record):
    exit: int | None = None
    truncated: bool
    timeout: bool = False


class BashOutput(Frozen):
    result: BashResult
    text: str
    remarks: str
    path: str | None


class BashSettings(Frozen):
    shell: str | None = None
    external_paths: Literal["ask", "deny"] = "ask"
    passed: tuple[str, ...] = ()
    """Variables of the host that commands get beyond the usual ones."""
    values: Mapping[str, str] = {}
    """Variables that configuration or plugins set."""


def bash_tool(
    paths: LocationPaths,
    processes: Processes,
    authorizer: Authorizer,
    *,
    host: Mapping[str, str],
    settings: Callable[[], BashSettings] = BashSettings,
    store: OutputStore | None = None,
    sandbox: Sandbox | None = None,
    attended: bool = False,
) -> Tool[BashInput, BashOutput]:
    """`host` is the runtime's own environment; `settings` is asked at each call. The description is that of the sandbox
    in force now. Escaping it is offered only where a person can be asked (`attended`)."""
    confined = sandbox.settings if sandbox is not None and sandbox.settings.mode != "off" else None
    escapable = confined is not None and attended
    bash = _Bash(paths, processes, authorizer, host, settings, store, sandbox, escapable=escapable)
    return Tool(
        description=DESCRIPTION if confined is None else confined_description(confined),
        input=ConfinedBashInput if escapable else BashInput,
        output=BashOutput,
        execute=bash.execute,
        content=_content,
        structured=lambda given, value: value["result"],
        structured_type=BashResult,
        output_paths=lambda given, value: () if value["path"] is None else (value["path"],),
    )


def confined_description(settings: SandboxSettings) -> str:
    return CONFINED.format(writing=WRITING[settings.mode], network=NETWORK[settings.network])


class _Bash:
    def __init__(
        self,
        paths: LocationPaths,
        processes: Processes,
        authorizer: Authorizer,
        host: Mapping[str, str],
        settings: Callable[[], BashSettings],
        store: OutputStore | None,
        sandbox: Sandbox | None,
        *,
        escapable: bool,
    ) -> None:
        self._paths = paths
        self._processes = processes
        self._authorizer = authorizer
        self._host = host
        self._settings = settings
        self._store = store
        self._examining = asyncio.Lock()
        self._sandbox = sandbox
        self._escapable = escapable

    async def execute(self, given: BashInput, context: ToolContext) -> BashOutput:
        settings = self._settings()
        workdir = self._workdir(given, settings)
        warnings = await self._authorize(given.command, workdir, context)
        terms = await self._terms(given, workdir, context)
        # Approval may have taken hours.
        _check_directory(given.command, workdir)
        output = CommandOutput(self._store)
        timeout = DEFAULT_TIMEOUT if given.timeout is msgspec.UNSET else given.timeout
        try:
            ended = await self._run(given.command, workdir.path, timeout, settings, output, terms)
        except asyncio.CancelledError:
            shown = output.finish()
            report({"truncated": shown.truncated}, (TextContent(text=shown.text),))
            raise
        except ProcessError as problem:
            raise _unable(given.command, problem.cause or str(problem)) from problem
        shown = output.finish()
        remarks = "\n".join((_remarks(ended, timeout, warnings), *self._about_sandbox(ended, terms)))
        return BashOutput(_result(ended, shown.truncated), shown.text, remarks, shown.path)

    def _workdir(self, given: BashInput, settings: BashSettings) -> Target:
        if "\0" in given.command:
            raise ToolFailure("Unable to execute command: it contains a NUL character")
        path = "." if given.workdir is msgspec.UNSET else given.workdir
        try:
            target = self._paths.resolve(path, "write", kind="directory", external=settings.external_paths)
        except PathError as problem:
            raise _unable(given.command, f"{path}: {problem}") from problem
        return target

    async def _authorize(self, command: str, workdir: Target, context: ToolContext) -> list[str]:
        """Returns the warnings that were shown with the request."""
        if workdir.boundary is not None:
            boundary = (workdir.boundary,)
            await self._authorizer.allow(context, "external_directory", boundary, save=boundary)
        _check_directory(command, workdir)
        (resources, save), warnings = await self._examine(command, workdir.path)
        metadata = {"command": visible(command), "workdir": workdir.resource, "warnings": warnings}
        await self._authorizer.allow(context, "bash", resources, save=save, metadata=metadata)
        return warnings

    async def _examine(self, command: str, workdir: Path) -> "tuple[Approval, list[str]]":
        """A long command takes some 20 ms. Parallel calls would add up on the event loop, or in several threads."""
        if len(command) <= QUICK_CHARACTERS:
            return self._examined(command, workdir)
        async with self._examining:
            return await asyncio.to_thread(self._examined, command, workdir)

    def _examined(self, command: str, workdir: Path) -> "tuple[Approval, list[str]]":
        from holdfast.core.shell.approval import approval
        from holdfast.core.shell.grammar import parse
        from holdfast.core.shell.references import external_directories

        script = parse(command)
        outside = external_directories(script, workdir, self._host.get("HOME", "/"))
        return approval(script), [OUTSIDE.format(directory=found.rstrip("/")) for found in outside]

    async def _terms(self, given: BashInput, workdir: Target, context: ToolContext) -> Terms:
        """Under which confinement it runs; leaving the sandbox needs an approval of its own, for this command alone."""
        if self._sandbox is None:
            return Terms()
        if isinstance(given, ConfinedBashInput) and given.escape is True:
            metadata = {"command": visible(given.command), "workdir": workdir.resource}
            await self._authorizer.allow(context, "sandbox_escape", (given.command,), metadata=metadata)
            return Terms()
        try:
            return await self._sandbox.terms(context.agent)
        except SandboxRefused as refused:
            raise _unable(given.command, str(refused)) from refused

    def _about_sandbox(self, ended: Ended, terms: Terms) -> list[str]:
        if terms.confinement is None:
            return [WITHOUT_SANDBOX.format(problem=_sentence(terms.problem))] if terms.problem else []
        lines = [f"{_sentence(terms.problem)}."] if terms.problem else []
        if ended.code != 0:
            lines += [IN_SANDBOX.format(summary=terms.summary), *((MAY_ESCAPE,) if self._escapable else ())]
        return lines

    async def _run(
        self,
        command: str,
        workdir: Path,
        timeout: int,
        settings: BashSettings,
        output: CommandOutput,
        terms: Terms,
    ) -> Ended:
        environment = child_environment(self._host, passed=settings.passed, values=settings.values)
        shell = command_shell(settings.shell, environment)
        with _checkpoints(output):
            return await self._processes.run(
                (shell, "-c", command),
                cwd=workdir,
                environment=environment,
                output=output,
                timeout=timeout / 1000,
                confinement=terms.confinement,
            )


@contextmanager
def _checkpoints(output: CommandOutput) -> Iterator[None]:
    """Report the newest output every few seconds."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def checkpoint() -> None:
        _report(output)
        timers[:] = [loop.call_later(PROGRESS_SECONDS, checkpoint)]

    timers.append(loop.call_later(PROGRESS_SECONDS, checkpoint))
    try:
        yield
    finally:
        timers[0].cancel()


def visible(command: str) -> str:
    """For a prompt: what a reader cannot see, or what would change the order of what he sees, is spelled out."""
    if command.replace("\n", "").replace("\t", "").isprintable():
        return command
    return "".join(
        f"\\u{{{ord(char):x}}}" if unicodedata.category(char) in _UNSEEN and char not in "\n\t" else char
        for char in command
    )


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def _report(output: CommandOutput) -> None:
    if output.size:
        report({}, (TextContent(text=output.last(PROGRESS_BYTES)),))


def _result(ended: Ended, truncated: bool) -> BashResult:
    if ended.cause == "timeout":
        return BashResult(truncated=truncated, timeout=True)
    return BashResult(exit=ended.code, truncated=truncated)


def _remarks(ended: Ended, timeout: int, warnings: list[str]) -> str:
    lines = ["Warnings:", *(f"- {warning}" for warning in warnings), ""] if warnings else []
    match ended.cause:
        case "timeout":
            lines.append(TIMED_OUT.format(timeout=timeout))
        case "storm":
            lines.append(TOO_MANY_PROCESSES)
        case "closed":
            lines.append(CLOSED)
        case _ if ended.signal is not None:
            lines.append(KILLED.format(code=ended.code, signal=ended.signal))
        case _:
            lines.append(EXITED.format(code=ended.code))
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _content(given: BashInput, value: Mapping[str, Any]) -> Sequence[ToolContent]:
    return TextContent(text=value["text"]), TextContent(text=value["remarks"])


def _check_directory(command: str, workdir: Target) -> None:
    if os.path.realpath(workdir.path) != str(workdir.path) or not workdir.path.is_dir():
        raise _unable(command, f"{workdir.resource} is not a directory")


def _unable(command: str, reason: str) -> ToolFailure:
    shown = command if len(command) <= SHOWN_COMMAND else f"{command[:SHOWN_COMMAND]}..."
    return ToolFailure(f"{UNABLE.format(command=shown)}\n{reason}")
