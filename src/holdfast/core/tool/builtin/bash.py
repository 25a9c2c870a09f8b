"""The `bash` tool: runs one command in a new shell, approved by its parsed structure; kills all its processes at the
end."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.core.filesystem.errors import PathError
from holdfast.core.filesystem.location_path import LocationPaths, Target
from holdfast.core.permission.rules import Terms
from holdfast.core.process.environment import child_environment
from holdfast.core.process.process import TREE_LIMIT, ProcessError, Processes, ProcessExit
from holdfast.core.process.sandbox.confinement import SandboxSettings
from holdfast.core.process.sandbox.sandbox import Sandbox, SandboxDecision, SandboxRefused
from holdfast.core.shell.select import command_shell
from holdfast.core.tool.builtin.authorize import Authorizer, allow_outside
from holdfast.core.tool.output import OutputStore
from holdfast.core.tool.progress import report
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent
from holdfast.text.visible_text import visible

if TYPE_CHECKING:
    from holdfast.core.shell.approval import Approval
    from holdfast.core.tool import command_output
else:
    command_output = deferred("holdfast.core.tool.command_output")

DEFAULT_TIMEOUT = 120_000
LONGEST_TIMEOUT = 600_000
PROGRESS_SECONDS = 2.0
PROGRESS_BYTES = 2048
SHOWN_COMMAND = 500
QUICK_CHARACTERS = 512
"""Commands up to this length are parsed on the event loop, which takes about a millisecond."""

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
    command: Annotated[str, Meta(description="The command, as the shell reads it")]
    workdir: Annotated[str, Meta(description="Where to run it; the project directory unless given")] | UnsetType = UNSET
    timeout: (
        Annotated[int, Meta(ge=1, le=LONGEST_TIMEOUT, description="Milliseconds until it is ended")] | UnsetType
    ) = UNSET


class ConfinedBashInput(BashInput, frozen=True):
    """Where a sandbox is in force and a person can be asked."""

    escape: (
        Annotated[bool, Meta(description="Run outside the sandbox. The user is asked for approval first")] | UnsetType
    ) = UNSET


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
    """Host variables that commands get in addition to the allow-list."""
    values: Mapping[str, str] = {}
    """Variables set by configuration or plugins."""


def bash_tool(
    paths: LocationPaths,
    processes: Processes,
    authorizer: Authorizer,
    *,
    host: Mapping[str, str],
    settings: Callable[[], BashSettings] = BashSettings,
    store: OutputStore | None = None,
    sandbox: Sandbox | None = None,
    root: Path | None = None,
    attended: bool = False,
) -> Tool[BashInput, BashOutput]:
    """The description tells the model about the sandbox configured now. Escaping it is offered only where a person can
    be asked (`attended`)."""
    confined = sandbox.settings if sandbox is not None and sandbox.settings.mode != "off" else None
    escapable = confined is not None and attended
    commands = ShellCommands(paths, processes, authorizer, host, settings, sandbox, root)
    bash = _Bash(commands, store, escapable)
    return Tool(
        description=DESCRIPTION if confined is None else confined_description(confined),
        input=ConfinedBashInput if escapable else BashInput,
        output=BashOutput,
        execute=bash.execute,
        content=lambda given, value: (TextContent(text=value["text"]), TextContent(text=value["remarks"])),
        structured=lambda given, value: value["result"],
        structured_type=BashResult,
        output_paths=lambda given, value: () if value["path"] is None else (value["path"],),
    )


def confined_description(settings: SandboxSettings) -> str:
    return CONFINED.format(writing=WRITING[settings.mode], network=NETWORK[settings.network])


class _Parsed(Frozen):
    approval: "Approval"
    warnings: list[str]
    """About external directories."""
    reads: tuple[str, ...] | None
    """The files that the command names, if it is proved to change nothing."""
    suspected: tuple[str, ...]


class ApprovedCommand(Frozen):
    """A command that may run, and where and how."""

    command: str
    workdir: Target
    warnings: list[str]
    """About directories outside the project; they were shown with the request."""
    settings: BashSettings
    terms: SandboxDecision


class _Bash(Frozen, eq=False):
    """The executor of the tool."""

    commands: "ShellCommands"
    store: OutputStore | None
    escapable: bool

    async def execute(self, given: BashInput, context: ToolContext) -> BashOutput:
        approved = await self.commands.approve(given, context)
        output = command_output.CommandOutput(self.store)
        timeout = DEFAULT_TIMEOUT if given.timeout is UNSET else given.timeout
        try:
            with _checkpoints(output):
                ended = await self.commands.run(approved, output, timeout=timeout)
        except asyncio.CancelledError:
            shown = output.finish()
            report({"truncated": shown.truncated}, (TextContent(text=shown.text),))
            raise
        shown = output.finish()
        remarks = _remarks(ended, timeout, approved.warnings)
        about = about_sandbox(ended, approved.terms, escapable=self.escapable)
        return BashOutput(_result(ended, shown.truncated), shown.text, "\n".join((remarks, *about)), shown.path)


class ShellCommands(Frozen, eq=False):
    """Commands of a Location: approved as calls of `bash`, and run in its shell, sandbox and environment. `host` is the
    runtime's own environment; `settings` is called at each execution."""

    paths: LocationPaths
    processes: Processes
    authorizer: Authorizer
    host: Mapping[str, str]
    settings: Callable[[], BashSettings]
    sandbox: Sandbox | None
    root: Path | None = None
    """The directory of the project, whose Locations share saved approvals; None if it is the Location's."""
    parsing: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    async def approve(self, given: BashInput, context: ToolContext) -> ApprovedCommand:
        """Wait for permission, however long that takes. Raises ToolFailure or DeniedByPerson."""
        settings = self.settings()
        workdir = self._workdir(given, settings)
        warnings = await self._authorize(given.command, workdir, context)
        terms = await self._terms(given, workdir, context)
        # Checked again: the approval may have taken hours.
        _check_directory(given.command, workdir)
        return ApprovedCommand(given.command, workdir, warnings, settings, terms)

    async def run(
        self, approved: ApprovedCommand, output: Callable[[bytes], bool], *, timeout: int | None = None
    ) -> ProcessExit:
        """Run until exit, or the timeout in milliseconds. Raises ToolFailure if it cannot be started."""
        settings = approved.settings
        environment = child_environment(self.host, passed=settings.passed, values=settings.values)
        shell = command_shell(settings.shell, environment)
        disabled: tuple[str, ...] = ()
        try:
            ended = await self.processes.run(
                (shell, "-c", approved.command),
                cwd=approved.workdir.path,
                environment=environment,
                output=output,
                timeout=None if timeout is None else timeout / 1000,
                confinement=approved.terms.confinement,
            )
        except ProcessError as problem:
            raise _unable(approved.command, problem.cause or str(problem)) from problem
        finally:
            if self.sandbox is not None:
                disabled = await self.sandbox.settle(approved.terms)
        return ended.replace(disabled=disabled)

    def _workdir(self, given: BashInput, settings: BashSettings) -> Target:
        if "\0" in given.command:
            raise ToolFailure("Unable to execute command: it contains a NUL character")
        path = "." if given.workdir is UNSET else given.workdir
        try:
            return self.paths.resolve(path, "write", kind="directory", external=settings.external_paths)
        except PathError as problem:
            raise _unable(given.command, f"{path}: {problem}") from problem

    async def _authorize(self, command: str, workdir: Target, context: ToolContext) -> list[str]:
        """Returns the warnings that were shown with the request."""
        await allow_outside(self.authorizer, context, [workdir])
        _check_directory(command, workdir)
        if len(command) <= QUICK_CHARACTERS:
            parsed = self._parse(command, workdir)
        else:
            # A long command takes about 20 ms; only one is parsed at a time.
            async with self.parsing:
                parsed = await asyncio.to_thread(self._parse, command, workdir)
        resources, save = parsed.approval
        metadata = {**about_command(command, workdir), "warnings": parsed.warnings}
        elsewhere = workdir.path != self.paths.root
        terms = Terms(reads=parsed.reads, suspected=parsed.suspected, exact_only=elsewhere)
        await self.authorizer.allow(context, "bash", resources, save=save, metadata=metadata, terms=terms)
        return parsed.warnings

    def _parse(self, command: str, workdir: Target) -> "_Parsed":
        from holdfast.core.shell.approval import approval
        from holdfast.core.shell.grammar import parse
        from holdfast.core.shell.read_only import read_files
        from holdfast.core.shell.references import external_directories
        from holdfast.core.shell.suspects import suspected_commands

        script = parse(command)
        outside = external_directories(script, workdir.path, self.host.get("HOME", "/"))
        warnings = [OUTSIDE.format(directory=directory.rstrip("/")) for directory in outside]
        place = os.path.relpath(workdir.path, self.root or self.paths.root)
        needed = approval(script, "" if place == "." else place, prefixes=workdir.path == self.paths.root)
        reads = self._resources(read_files(script), workdir.path)
        return _Parsed(needed, warnings, reads, suspected_commands(script))

    def _resources(self, names: tuple[str, ...] | None, workdir: Path) -> tuple[str, ...] | None:
        """The files as rules name them; None if one of them is outside of what may be read without asking."""
        if names is None:
            return None
        try:
            targets = [self.paths.resolve(os.path.join(workdir, name), external="deny") for name in names if name]
        except PathError:
            return None
        return tuple(dict.fromkeys(target.resource for target in targets))

    async def _terms(self, given: BashInput, workdir: Target, context: ToolContext) -> SandboxDecision:
        """The confinement to run under. Escaping the sandbox needs an approval for this exact command."""
        if self.sandbox is None:
            return SandboxDecision()
        if isinstance(given, ConfinedBashInput) and given.escape is True:
            metadata = about_command(given.command, workdir)
            await self.authorizer.allow(context, "sandbox_escape", (given.command,), metadata=metadata)
            return SandboxDecision()
        try:
            return await self.sandbox.terms(context.agent)
        except SandboxRefused as refused:
            raise _unable(given.command, str(refused)) from refused


def about_sandbox(ended: ProcessExit, terms: SandboxDecision, *, escapable: bool = False) -> list[str]:
    """Remarks on the sandbox in which a command ran, if they may explain its result."""
    if terms.confinement is None:
        return [WITHOUT_SANDBOX.format(problem=_sentence(terms.problem))] if terms.problem else []
    lines = [f"{_sentence(terms.problem)}."] if terms.problem else []
    lines += [f"{visible(line)}." for line in ended.disabled]
    if ended.code != 0:
        lines += [IN_SANDBOX.format(summary=terms.summary), *((MAY_ESCAPE,) if escapable else ())]
    return lines


@contextmanager
def _checkpoints(output: "command_output.CommandOutput") -> Iterator[None]:
    """Report the newest output every few seconds."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def checkpoint() -> None:
        if output.size:
            report({}, (TextContent(text=output.last(PROGRESS_BYTES)),))
        timers[:] = [loop.call_later(PROGRESS_SECONDS, checkpoint)]

    timers.append(loop.call_later(PROGRESS_SECONDS, checkpoint))
    try:
        yield
    finally:
        timers[0].cancel()


def about_command(command: str, workdir: Target) -> dict[str, Any]:
    """The command exactly as it would run, its directory as rules name it and as an absolute path. Whoever shows it to
    a person makes hidden characters visible."""
    return {"command": command, "workdir": workdir.resource, "directory": str(workdir.path)}


def _result(ended: ProcessExit, truncated: bool) -> BashResult:
    if ended.cause == "timeout":
        return BashResult(truncated=truncated, timeout=True)
    return BashResult(exit=ended.code, truncated=truncated)


def _remarks(ended: ProcessExit, timeout: int, warnings: list[str]) -> str:
    lines = ["Warnings:", *(f"- {warning}" for warning in warnings), ""] if warnings else []
    lines.append(TIMED_OUT.format(timeout=timeout) if ended.cause == "timeout" else how_it_ended(ended))
    return "\n".join(lines)


def how_it_ended(ended: ProcessExit) -> str:
    match ended.cause:
        case "storm":
            return TOO_MANY_PROCESSES
        case "closed":
            return CLOSED
        case _ if ended.signal is not None:
            return KILLED.format(code=ended.code, signal=ended.signal)
        case _:
            return EXITED.format(code=ended.code)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _check_directory(command: str, workdir: Target) -> None:
    if os.path.realpath(workdir.path) != str(workdir.path) or not workdir.path.is_dir():
        raise _unable(command, f"{workdir.resource} is not a directory")


def _unable(command: str, reason: str) -> ToolFailure:
    shown = command if len(command) <= SHOWN_COMMAND else f"{command[:SHOWN_COMMAND]}..."
    return ToolFailure(f"{UNABLE.format(command=shown)}\n{reason}")
