"""`holdfast run`: sends a prompt and prints the answer as it arrives."""

from __future__ import annotations

import sys
from typing import Any, Literal, NamedTuple

import click

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
    mentions: bool = True
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
@click.option(
    "--mentions/--no-mentions", default=True, help="Attach what PROMPT mentions with @; see docs/how-to/prompts.md."
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

    The answer goes to standard output, everything else to standard error. The session is stored; --session continues
    it. Ctrl-C interrupts the turn and exits with 130; the interruption is recorded.

    Permission requests are asked in the terminal. Without a terminal they are denied at once, unless --yes is given."""
    ask = Ask(_read_prompt() if prompt == ("-",) else " ".join(prompt), **options)
    _check(ask, missing=not prompt)
    if ask.command is not None or ask.sandbox is not None:
        ask = ask._replace(standalone=True)
    from holdfast.cli.turn import run_prompt

    sys.exit(run_prompt(ask))


def _check(ask: Ask, *, missing: bool) -> None:
    """Raise a usage error for options that do not fit. `missing`: no prompt was given."""
    if missing and ask.command is None:
        raise click.UsageError("Missing argument 'PROMPT...'; - reads it from standard input.")
    if not ask.text.strip() and ask.command is None:
        raise click.BadParameter("the prompt is empty", param_hint="PROMPT")
    if ask.model is not None and not all(ask.model.partition("/")[::2]):
        raise click.BadParameter(f"{ask.model!r} is not PROVIDER/MODEL, as in demo/echo", param_hint="--model")
    if any("\ud800" <= character <= "\udfff" for character in ask.text):
        raise click.BadParameter(NOT_UTF8, param_hint="PROMPT")
    if ask.attach is not None and (ask.standalone or ask.command is not None or ask.sandbox is not None):
        raise click.UsageError("--attach cannot be combined with --standalone, --command or --sandbox")


def _read_prompt() -> str:
    """The prompt from standard input, up to the largest size that a server accepts."""
    data = sys.stdin.buffer.read(STDIN_BYTES + 1)
    if len(data) > STDIN_BYTES:
        raise click.BadParameter(f"the prompt is larger than {STDIN_BYTES // 1024**2} MiB", param_hint="PROMPT")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.BadParameter(NOT_UTF8, param_hint="PROMPT") from None
