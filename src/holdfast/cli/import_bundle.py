"""`holdfast import`: takes the sessions of bundles, and conversations of OpenCode, into the database."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from holdfast.cli.bundle_progress import BundleProgress
from holdfast.cli.command_runner import run_on_host
from holdfast.cli.imported_transcripts import is_transcript, show_transcripts
from holdfast.cli.named_file import NamedFile
from holdfast.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.bundle import ImportReport

SHOWN = 20


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE|DIRECTORY…", type=NamedFile(exists=True))
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Let the sessions be in this directory instead of the one they were in.",
)
@click.option(
    "--accept-changes",
    is_flag=True,
    help="Let a bundle also rename, move and otherwise change sessions that are here, not only continue them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each report as a line of JSON, and no progress.")
def command(files: tuple[str, ...], directory: str | None, accept_changes: bool, as_json: bool) -> None:
    """Take the sessions of bundles into the database, or conversations of OpenCode: a file that `opencode export`
    wrote, or the directory in which OpenCode 1.x stores them.

    A bundle is imported as a whole or not at all. Sessions that are there already stay as they are; one with the same
    id and another history refuses the bundle. Nothing is executed: unfinished work waits for
    `holdfast sessions recover`, and requests that waited for an answer are closed."""
    run_on_host(lambda host: _import(host, files, directory, accept_changes, as_json))


async def _import(
    host: Holdfast, files: tuple[str, ...], directory: str | None, accept_changes: bool, as_json: bool
) -> int:
    from holdfast.schema.codec import encode_text

    code = 0
    for file in files:
        progress = BundleProgress(shown=not as_json)
        try:
            if is_transcript(file):
                found = await host.import_transcripts(file, directory=directory, told=progress.show)
                code = max(code, 1 if found.refused else 0)
                progress.clear()
                show_transcripts(file, found, as_json)
                continue
            report = await host.import_bundle(
                file, directory=directory, accept_changes=accept_changes, told=progress.show
            )
        finally:
            progress.clear()
        if as_json:
            click.echo(encode_text(report))
            continue
        click.echo(printable(f"{file}: {_described(report)}"))
        for line in _notes(report):
            click.echo(printable(line), err=True)
    return code


def _described(report: ImportReport) -> str:
    outcomes = Counter(session.outcome for session in report.sessions)
    parts = [
        f"{outcomes[outcome]:,} {outcome}" for outcome in ("imported", "extended", "unchanged") if outcomes[outcome]
    ]
    total = len(report.sessions)
    return f"{total:,} {'session' if total == 1 else 'sessions'} ({', '.join(parts)}), {report.events:,} new events"


def _notes(report: ImportReport) -> Iterator[str]:
    if report.redacted:
        yield "what looked like a secret, and the home directory of its author, were replaced in it"
    yield from _bounded(
        [f"{session.id} was here and has new events" for session in report.sessions if session.outcome == "extended"]
    )
    yield from _bounded([f"{session.id}: it {change}" for session in report.sessions for change in session.changes])
    yield from _bounded(
        [
            f"{session.id}: left out {session.closed:,} {'request' if session.closed == 1 else 'requests'} that waited "
            "for an answer elsewhere; whoever continues it is asked again"
            for session in report.sessions
            if session.closed
        ]
    )
    yield from _bounded(
        [
            f"{session.id}: {session.pending:,} {'input waits' if session.pending == 1 else 'inputs wait'} that nobody "
            f"here wrote, and come before your next prompt; `holdfast sessions inbox {session.id}` shows them"
            for session in report.sessions
            if session.pending
        ]
    )
    interrupted = [session.id for session in report.sessions if session.interrupted]
    yield from _bounded(
        [f"{id} has unfinished work; `holdfast sessions recover {id}` decides about it" for id in interrupted]
    )
    elsewhere = Counter(session.directory for session in report.sessions if not session.directory_exists)
    yield from _bounded(
        [
            f"there is no directory {directory} here, where {count:,} of them are; import again with --directory DIR "
            "before you go on with them"
            for directory, count in sorted(elsewhere.items())
        ]
    )


def _bounded(lines: list[str]) -> list[str]:
    more = len(lines) - SHOWN
    return [*lines[:SHOWN], f"… and {more:,} more like the last one"] if more > 0 else lines
