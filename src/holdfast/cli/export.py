"""`holdfast export`: writes sessions to a bundle, or a conversation for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from holdfast.cli.bundle_progress import BundleProgress
from holdfast.cli.command_runner import run_on_host
from holdfast.cli.output import printable
from holdfast.cli.session_choice import session_of

if TYPE_CHECKING:
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.bundle import BundleReport

STANDARD_OUTPUT = "-"
REDACTED = (
    "what looks like a secret, and the home directory, were replaced in it; images were not looked into, and a secret "
    "that looks like a word stays"
)


@click.command("export")
@click.argument("sessions", nargs=-1, metavar="[SESSION]…")
@click.option("--all", "everything", is_flag=True, help="Export all sessions, as a bundle.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The file to write, such as work.holdfast. One that is there is replaced. A bundle needs it.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["bundle", "json", "markdown", "html"]),
    default="bundle",
    show_default=True,
    help="What to write. All but a bundle are the conversation of one session, for reading.",
)
@click.option("--redact", is_flag=True, help="Replace what looks like a secret, and the home directory.")
@click.option("--json", "as_json", is_flag=True, help="Print what a bundle contains as JSON, and no progress.")
def command(
    sessions: tuple[str, ...],
    everything: bool,
    output: str | None,
    form: Literal["bundle", "json", "markdown", "html"],
    redact: bool,
    as_json: bool,
) -> None:
    """Write sessions to a bundle, one file that `holdfast import` takes, or a conversation for reading.

    A session is exported with its subagents, and with the sessions that it was forked from. The bundle contains
    everything they contain: what was said, files that were attached, outputs of tools. It is not encrypted."""
    if everything == bool(sessions):
        raise click.UsageError("Name the sessions to export, or give --all.")
    if form == "bundle":
        if output is None:
            raise click.UsageError("A bundle needs a file: -o work.holdfast")
        target = output
        run_on_host(lambda host: _bundle(host, sessions, target, redact, as_json))
    if len(sessions) != 1 or as_json:
        raise click.UsageError(f"--format {form} writes the conversation of one session, and has no --json.")
    run_on_host(lambda host: _conversation(host, sessions[0], form, output, redact))


async def _bundle(host: Holdfast, sessions: tuple[str, ...], output: str, redact: bool, as_json: bool) -> int:
    from holdfast.schema.codec import encode_text

    progress = BundleProgress(shown=not as_json)
    try:
        sessions = tuple([await session_of(host, name) for name in sessions])
        report = await host.export_bundle(output, *sessions, redact=redact, told=progress.show)
    finally:
        progress.clear()
    if as_json:
        click.echo(encode_text(report))
        return 0
    click.echo(printable(f"{output}: {described(report)}"))
    for line in notes(report, sessions):
        click.echo(printable(line), err=True)
    return 0


async def _conversation(
    host: Holdfast, session: str, form: Literal["bundle", "json", "markdown", "html"], output: str | None, redact: bool
) -> int:
    data = await host.sessions.export(await session_of(host, session), format=form, redact=redact or None)
    if output is None or output == STANDARD_OUTPUT:
        click.echo(data, nl=False)
        return 0
    from holdfast.embedded.files import replace_file

    replace_file(output, data)
    return 0


def described(report: BundleReport) -> str:
    sessions = "1 session" if report.sessions == 1 else f"{report.sessions:,} sessions"
    files = "" if not report.files else " and 1 file" if report.files == 1 else f" and {report.files:,} files"
    return f"{sessions} with {report.events:,} events{files}, sha256 {report.digest}"


def notes(report: BundleReport, asked: tuple[str, ...] = ()) -> list[str]:
    """What a person has to know about a bundle."""
    found = []
    others = [id for id in asked if id not in report.requested]
    if others:
        found.append(f"{', '.join(others)} is part of a tree; the whole tree was exported")
    if report.missing_files:
        count = len(report.missing_files)
        what = "1 output of a tool is" if count == 1 else f"{count} outputs of tools are"
        found.append(f"{what} not in it: the file was removed before, as files are after a week")
    if report.redacted:
        found.append(REDACTED)
    return found
