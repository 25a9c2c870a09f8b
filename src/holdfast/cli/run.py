"""`holdfast run`: one prompt, its answer on standard output as it comes."""

from __future__ import annotations

import sys
from typing import Literal, NamedTuple

import click

STDIN_BYTES = 32 * 1024 * 1024
NO_TEXT = "it is not valid UTF-8"


class Ask(NamedTuple):
    text: str = ""
    session_id: str | None = None
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    command: str | None = None
    directory: str | None = None
    attach: str | None = None
    standalone: bool = False
    yes: bool = False
    quiet: bool = False
    as_json: bool = False
    sandbox: Literal["off", "read-only", "workspace"] | None = None


@click.command("run", short_help="Send a prompt and show the answer as it comes.")
@click.argument("prompt", nargs=-1)
@click.option("--session", "session_id", metavar="ID", help="Continue this session instead of starting one.")
@click.option("--agent", metavar="NAME", help="The agent that answers; see `holdfast agents`.")
@click.option("--model", metavar="PROVIDER/MODEL", help="The model that answers; demo/echo works offline.")
@click.option("--variant", metavar="NAME", help="A variant of the model, such as its effort.")
@click.option("--command", metavar="NAME", help="Call this command; PROMPT is its arguments. See `holdfast commands`.")
@click.option("--dir", "directory", type=click.Path(exists=True, file_okay=False), help="The project directory.")
@click.option("--attach", metavar="URL", help="Use this server.")
@click.option("--standalone", is_flag=True, help="Use no server, even if one runs on the same data.")
@click.option("--yes", is_flag=True, help="Allow everything that would be asked for.")
@click.option(
    "--sandbox",
    type=click.Choice(["off", "read-only", "workspace"]),
    help="How commands are confined; uses no server. See docs/how-to/sandbox.md.",
)
@click.option("-q", "--quiet", is_flag=True, help="Only the answer, no session id and no tool calls.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON document a line: the session, the receipt, every event."
)
def command(
    prompt: tuple[str, ...],
    session_id: str | None,
    agent: str | None,
    model: str | None,
    variant: str | None,
    command: str | None,
    directory: str | None,
    attach: str | None,
    standalone: bool,
    yes: bool,
    sandbox: Literal["off", "read-only", "workspace"] | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Send PROMPT and show the answer as it comes; - reads it from standard input.

    The answer goes to standard output, everything else to standard error. The session is kept: continue it with
    --session. Ctrl-C interrupts the turn, records that, and exits with 130.

    What needs your permission is asked for in the terminal. Without a terminal it is denied at once, unless --yes."""
    text = _given() if prompt == ("-",) else " ".join(prompt)
    if not prompt and command is None:
        raise click.UsageError("Missing argument 'PROMPT...'; - reads it from standard input.")
    if not text.strip() and command is None:
        raise click.BadParameter("it is empty", param_hint="PROMPT")
    if model is not None and not all(model.partition("/")[::2]):
        raise click.BadParameter("expected PROVIDER/MODEL, as in demo/echo", param_hint="--model")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise click.BadParameter(NO_TEXT, param_hint="PROMPT")
    if attach is not None and (standalone or command is not None or sandbox is not None):
        raise click.UsageError("--attach cannot be combined with --standalone, --command or --sandbox")
    from holdfast.cli.turn import run_prompt

    sys.exit(
        run_prompt(
            Ask(
                text,
                session_id,
                agent,
                model,
                variant,
                command,
                directory,
                attach,
                standalone=standalone or command is not None or sandbox is not None,
                yes=yes,
                quiet=quiet,
                as_json=as_json,
                sandbox=sandbox,
            )
        )
    )


def _given() -> str:
    """Standard input, as far as a prompt can be long."""
    data = sys.stdin.buffer.read(STDIN_BYTES + 1)
    if len(data) > STDIN_BYTES:
        raise click.BadParameter(f"it is longer than {STDIN_BYTES // 1024**2} MiB", param_hint="PROMPT")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.BadParameter(NO_TEXT, param_hint="PROMPT") from None
