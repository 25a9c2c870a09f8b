"""`holdfast run`: sends a prompt and prints the answer as it arrives."""

from __future__ import annotations

import sys
from typing import Any, Literal, NamedTuple

import click

from holdfast.cli.calls import Call, joined, read_call

STDIN_BYTES = 32 * 1024 * 1024
NOT_UTF8 = "the prompt is not valid UTF-8"


class Ask(NamedTuple):
    """The prompt and the options of `holdfast run`."""

    text: str = ""
    session_id: str | None = None
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    command: str | None = None
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


@click.command("run", short_help="Send a prompt and print the answer as it arrives.")
@click.argument("prompt", nargs=-1)
@click.option("--session", "session_id", metavar="ID", help="Continue this session instead of creating one.")
@click.option("--agent", metavar="NAME", help="The agent; `holdfast agents` lists them.")
@click.option("--model", metavar="PROVIDER/MODEL", help="The model; demo/echo works offline.")
@click.option("--variant", metavar="NAME", help="The variant of the model, such as its effort.")
@click.option(
    "--command", metavar="NAME", help="Call this command with PROMPT as arguments; `holdfast commands` lists them."
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
    "--json", "as_json", is_flag=True, help="Print one JSON document per line: the session, the receipt, every event."
)
def command(prompt: tuple[str, ...], **options: Any) -> None:
    """Send PROMPT and print the answer as it arrives; - reads the prompt from standard input.

    A PROMPT that begins with a slash calls a command or a skill, as in "/init" or "/review main". One that begins with
    an exclamation mark runs a shell command in the session, as in '!git status', and exits with its status; the model
    reads command and output. What comes from standard input is never a call.

    The answer goes to standard output, everything else to standard error. The session is stored; --session continues
    it. Ctrl-C interrupts the turn and exits with 130; the interruption is recorded.

    Permission requests are asked in the terminal. Without a terminal they are denied at once, unless --yes is given."""
    if prompt == ("-",):
        ask = Ask(_read_prompt(), **options)
    else:
        ask = _with_call(Ask(joined(prompt, quoting=options["command"] is not None), **options))
    _check(ask, missing=not prompt)
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


def _check(ask: Ask, *, missing: bool) -> None:
    """Raise a usage error for options that do not fit. `missing`: no prompt was given."""
    if missing and ask.command is None:
        raise click.UsageError("Missing argument 'PROMPT...'; - reads it from standard input.")
    if not ask.text.strip() and ask.command is None:
        raise click.BadParameter("the prompt is empty", param_hint="PROMPT")
    if ask.shell == "":
        raise click.BadParameter("there is no command after the exclamation mark", param_hint="PROMPT")
    if ask.model is not None and not all(ask.model.partition("/")[::2]):
        raise click.BadParameter(f"{ask.model!r} is not PROVIDER/MODEL, as in demo/echo", param_hint="--model")
    if any("\ud800" <= character <= "\udfff" for character in ask.text):
        raise click.BadParameter(NOT_UTF8, param_hint="PROMPT")
    if ask.attach is not None and (ask.standalone or ask.sandbox is not None):
        raise click.UsageError("--attach cannot be combined with --standalone or --sandbox")


def _read_prompt() -> str:
    """The prompt from standard input, up to the largest size that a server accepts."""
    data = sys.stdin.buffer.read(STDIN_BYTES + 1)
    if len(data) > STDIN_BYTES:
        raise click.BadParameter(f"the prompt is larger than {STDIN_BYTES // 1024**2} MiB", param_hint="PROMPT")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.BadParameter(NOT_UTF8, param_hint="PROMPT") from None
