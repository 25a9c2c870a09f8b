"""`holdfast`: the commands. Each imports what it needs when it runs, so that `--help` stays quick."""

from __future__ import annotations

import sys

import click

from holdfast.schema.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def cli() -> None:
    """Durable agent sessions: nothing lost, nothing stuck, nothing repeated."""


@cli.command()
@click.argument("prompt", nargs=-1, required=True)
@click.option("--session", "session_id", metavar="ID", help="Continue this session instead of starting one.")
@click.option("--model", metavar="PROVIDER/MODEL", help="The model of a new session; demo/echo works offline.")
@click.option("--dir", "directory", type=click.Path(exists=True, file_okay=False), help="The project directory.")
@click.option("--attach", metavar="URL", help="Use a running `holdfast serve` instead of this process.")
@click.option("-q", "--quiet", is_flag=True, help="Only the answer, no session id and no tool calls.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON document a line: the session, the receipt, every event."
)
def run(
    prompt: tuple[str, ...],
    session_id: str | None,
    model: str | None,
    directory: str | None,
    attach: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Send PROMPT and show the answer as it comes.

    The answer goes to standard output, everything else to standard error. The session is kept: continue it with
    --session. Ctrl-C interrupts the turn, records that, and exits with 130."""
    text = " ".join(prompt)
    if model is not None and not all(model.partition("/")[::2]):
        raise click.BadParameter("expected PROVIDER/MODEL, as in demo/echo", param_hint="--model")
    if not text.isprintable() and any("\ud800" <= character <= "\udfff" for character in text):
        raise click.BadParameter("it is not valid UTF-8", param_hint="PROMPT")
    from holdfast.cli.run import Ask, run_prompt

    ask = Ask(text, session_id, model, directory, attach, quiet=quiet, as_json=as_json)
    sys.exit(run_prompt(ask))


@cli.command()
@click.option("--hostname", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=int, help="The port; 0 takes any free one.  [default: the first free one from 4096]")
@click.option("--no-auth", is_flag=True, help="Ask for no password. Anyone who reaches the port may do anything.")
def serve(hostname: str, port: int | None, no_auth: bool) -> None:
    """Serve the HTTP API until interrupted.

    Unless --no-auth is given, callers need a password: OPENCODE_SERVER_PASSWORD, or one that is generated and kept in
    a file only you can read."""
    from holdfast.cli.serve import run_server

    sys.exit(run_server(hostname, port, no_auth=no_auth))


@cli.command()
@click.option("--limit", default=20, show_default=True, help="How many.")
@click.option("--all", "everywhere", is_flag=True, help="Of every directory, not only this one.")
def sessions(limit: int, everywhere: bool) -> None:
    """List sessions, newest first."""
    from holdfast.cli.sessions import list_sessions

    sys.exit(list_sessions(limit, everywhere=everywhere))


@cli.command()
@click.option("--rebuild", is_flag=True, help="Write all projections anew from the event log.")
def doctor(rebuild: bool) -> None:
    """Check the database: does everything clients see agree with the event log?"""
    from holdfast.cli.doctor import examine

    sys.exit(examine(rebuild=rebuild))


def main() -> None:
    cli(prog_name="holdfast")


if __name__ == "__main__":
    main()
