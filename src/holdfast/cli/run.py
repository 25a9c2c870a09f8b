"""`holdfast run`: sends a prompt and prints the answer as it arrives."""

from __future__ import annotations

import sys
from typing import Any, Literal, NamedTuple

import click

from holdfast.cli.attached import NOT_UTF8, STDIN, Attached
from holdfast.cli.calls import Call, joined, read_call
from holdfast.cli.completion import complete
from holdfast.cli.named_file import NamedFile
from holdfast.cli.session_budget import Dollars

RESOURCE = "mcp://"


class Ask(NamedTuple):
    """The prompt and the options of `holdfast run`."""

    text: str = ""
    session_id: str | None = None
    """What the person calls the Session: its id, the beginning of that, or its title."""
    newest: bool = False
    """Whether the newest Session of the directory is continued."""
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    command: str | None = None
    mentions: bool = True
    typed: str | None = None
    """The whole text, if the command was called in it with a slash."""
    shell: str | None = None
    """The shell command, if the text began with an exclamation mark."""
    directory: str | None = None
    attach: str | None = None
    standalone: bool = False
    yes: bool = False
    quiet: bool = False
    as_json: bool = False
    sandbox: Literal["off", "read-only", "workspace"] | None = None
    system: str | None = None
    no_reply: bool = False
    budget: float | None = None
    """The largest cost of the Session and everything below it, in US dollars."""
    schema: dict[str, Any] | None = None
    """The JSON Schema of the answer."""
    files: tuple[str, ...] = ()
    """Paths that the server reads."""
    resources: tuple[str, ...] = ()
    """Addresses of resources of MCP servers."""
    attached: tuple[Attached, ...] = ()
    """Content that is sent with the prompt."""


class FileOrResource(NamedFile):
    """A path, or the address of a resource of an MCP server."""

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        return value if str(value).startswith(RESOURCE) else super().convert(value, param, context)


@click.command("run", short_help="Send a prompt and print the answer as it arrives.")
@click.argument("prompt", nargs=-1)
@click.option("-c", "--continue", "newest", is_flag=True, help="Continue the newest session of the directory.")
@click.option(
    "-s",
    "--session",
    "session_id",
    metavar="SESSION",
    shell_complete=complete("sessions"),
    help="Continue this session: its id, the beginning of its id, or its title.",
)
@click.option(
    "--agent", metavar="NAME", shell_complete=complete("agents"), help="The agent; `holdfast agents` lists them."
)
@click.option(
    "-m",
    "--model",
    metavar="PROVIDER/MODEL",
    shell_complete=complete("models"),
    help="The model; demo/echo works offline.",
)
@click.option("--variant", metavar="NAME", help="The variant of the model, such as its effort.")
@click.option(
    "-f",
    "--file",
    "files",
    metavar="PATH",
    multiple=True,
    type=FileOrResource(exists=True, allow_dash=True, piped=True),
    help="Attach this file, directory or resource (mcp://SERVER/ADDRESS); - attaches standard input. May be repeated.",
)
@click.option("--system", metavar="TEXT", help="Further instructions for this answer.")
@click.option(
    "--format",
    "schema_file",
    metavar="FILE",
    type=NamedFile(exists=True, dir_okay=False, piped=True),
    help="Answer with JSON that matches the JSON Schema in this file.",
)
@click.option("--no-reply", is_flag=True, help="Add the prompt to the conversation, and ask for no answer.")
@click.option(
    "--command", metavar="NAME", help="Call this command with PROMPT as arguments; `holdfast commands` lists them."
)
@click.option(
    "--mentions/--no-mentions", default=True, help="Attach what PROMPT mentions with @; see docs/how-to/prompts.md."
)
@click.option(
    "--budget",
    type=Dollars(),
    metavar="DOLLARS",
    help="What the session and everything below it may cost; see docs/how-to/budgets.md.",
)
@click.option("--dir", "directory", type=click.Path(exists=True, file_okay=False), help="The project directory.")
@click.option("--attach", metavar="URL", help="Use the server at this address.")
@click.option("--standalone", is_flag=True, help="Use no server, even if one runs on the same data.")
@click.option("--yes", is_flag=True, help="Allow every request without asking.")
@click.option(
    "--sandbox",
    type=click.Choice(["off", "read-only", "workspace"]),
    help="How commands are confined; implies --standalone. See docs/how-to/sandbox.md.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the answer.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document per line: the session, the receipt, every event, and at the end the result.",
)
def command(prompt: tuple[str, ...], files: tuple[str, ...], schema_file: str | None, **options: Any) -> None:
    """Send PROMPT and print the answer as it arrives; - reads the prompt from standard input.

    A PROMPT that begins with a slash calls a command or a skill, as in "/init" or "/review main". One that begins with
    an exclamation mark runs a shell command in the session, as in '!git status', and exits with its status; the model
    reads command and output. What comes from standard input is never a call.

    The answer goes to standard output, everything else to standard error: calls of tools, diffs of edits, the last
    lines of commands that failed, and at the end tokens, cost and time. The session is stored; --continue and --session
    go on with it. Ctrl-C interrupts the turn, and the interruption is recorded.

    What is piped into the command is attached to the prompt. Without PROMPT it is the prompt.

    Permission requests are asked in the terminal. Without a terminal they are denied at once, unless --yes is given.

    \b
    Exit codes:
      0    answered
      1    failed; the last line on standard error says why
      2    a mistake in the command line
      3    the budget of the session is used up, and it waits
      4    a permission request was denied
      130  interrupted"""
    ask = Ask(**options)
    _check(ask, prompt, files)
    if prompt != (STDIN,):
        ask = _with_call(ask._replace(text=joined(prompt, quoting=ask.command is not None)))
    ask = _read(ask, prompt, files, schema_file)
    if not ask.text.strip() and ask.command is None:
        raise click.BadParameter("the prompt is empty", param_hint="PROMPT")
    if any("\ud800" <= character <= "\udfff" for character in ask.text + (ask.system or "")):
        raise click.BadParameter(NOT_UTF8, param_hint="PROMPT")
    if ask.sandbox is not None:
        ask = ask._replace(standalone=True)
    from holdfast.cli.turn import run_prompt

    sys.exit(run_prompt(ask))


def _with_call(ask: Ask) -> Ask:
    """With the command or shell command that the text calls, unless `--command` names one."""
    call = read_call(ask.text) if ask.command is None else Call()
    if call.command is not None:
        return ask._replace(command=call.command, typed=ask.text, text=call.arguments)
    return ask._replace(shell=call.shell)


def _check(ask: Ask, prompt: tuple[str, ...], files: tuple[str, ...]) -> None:
    """Raise a usage error for options that do not fit, before anything is read."""
    if ask.model is not None and not all(ask.model.partition("/")[::2]):
        raise click.BadParameter(f"{ask.model!r} is not PROVIDER/MODEL, as in demo/echo", param_hint="--model")
    if ask.newest and ask.session_id is not None:
        raise click.UsageError("--continue and --session cannot be combined")
    if ask.attach is not None and (ask.standalone or ask.sandbox is not None):
        raise click.UsageError("--attach cannot be combined with --standalone or --sandbox")
    if (prompt == (STDIN,)) + files.count(STDIN) > 1:
        raise click.UsageError("standard input can be read once: as the prompt, or as one --file")


def _read(ask: Ask, prompt: tuple[str, ...], files: tuple[str, ...], schema_file: str | None) -> Ask:
    """With everything that comes from files and from standard input."""
    import os

    from holdfast.cli import attached as reading

    for_prompts = ask.system is not None or ask.no_reply or schema_file is not None
    if ask.command is not None and ask.typed is None and for_prompts:
        raise click.UsageError("--command cannot be combined with --system, --format or --no-reply")
    if ask.shell is not None:
        if for_prompts or files:
            raise click.UsageError("a shell command takes no --file, --system, --format or --no-reply")
        if not ask.shell:
            raise click.BadParameter("there is no command after the exclamation mark", param_hint="PROMPT")
        return ask
    resources = tuple(file for file in files if file.startswith(RESOURCE))
    paths = [os.path.abspath(path) for path in files if path != STDIN and path not in resources]
    attached = [reading.attached_stdin()] if STDIN in files else []
    text = ask.text
    if prompt == (STDIN,):
        text = reading.read_prompt()
    elif STDIN in files:
        pass
    elif prompt or ask.command is not None:
        if piped := reading.read_piped():
            attached.append(reading.attached_stdin(piped))
    else:
        text = reading.piped_prompt()
        if not text:
            raise click.UsageError("Missing argument 'PROMPT...'; - reads it from standard input.")
    # Read here: for a server that may be on another machine, and what can be read only once, as `<(command)`.
    here = [path for path in paths if ask.attach is not None or not (os.path.isfile(path) or os.path.isdir(path))]
    attached += [reading.attached_file(path) for path in here]
    paths = [path for path in paths if path not in here]
    schema = reading.read_schema(schema_file) if schema_file is not None else None
    return ask._replace(text=text, schema=schema, files=tuple(paths), resources=resources, attached=tuple(attached))
