"""`holdfast retention`: removes sessions as the retention policy says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.bundle_progress import BundleProgress
from holdfast.cli.command_runner import run_on_host
from holdfast.cli.output import brief, json_option, moment, print_json, print_table, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.retention import RetentionReport

SHOWN = 200


@click.command("retention", short_help="Remove sessions as the retention policy says.")
@click.option("--dry-run", is_flag=True, help="Only list what would be removed, and why.")
@click.option(
    "--export",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write each session with its subagents to a bundle in this directory before it is removed.",
)
@click.option("--compact", is_flag=True, help="Write the database file anew. All commits wait meanwhile.")
@json_option
def command(dry_run: bool, export: str | None, compact: bool, as_json: bool) -> None:
    """Remove sessions for good as `holdfast.retention` in your configuration says, with those of their subagents.

    Sessions go by age, by number and by the size of the database; archived ones first. Pinned sessions stay, and so do
    those that work or wait, and those that another session was forked from. Running servers go on meanwhile."""
    if compact and (dry_run or export):
        raise click.UsageError("--compact removes no sessions, so it goes with neither --dry-run nor --export.")
    if compact:
        run_on_host(_compact)
    run_on_host(lambda host: _apply(host, dry_run, export, as_json))


async def _compact(host: Holdfast) -> int:
    click.echo(f"the database file is {size(max(await host.compact_database(), 0))} smaller, and shrinks by itself now")
    return 0


async def _apply(host: Holdfast, dry_run: bool, export: str | None, as_json: bool) -> int:
    progress = BundleProgress(shown=not as_json, things="")
    try:
        report = await host.apply_retention(dry_run=dry_run, export=export, told=progress.show)
    finally:
        progress.clear()
    if as_json:
        print_json(report)
        return 0
    if dry_run and report.items:
        rows = (
            (item.id, moment(item.updated), item.sessions, item.reason, brief(item.title, 40))
            for item in report.items[:SHOWN]
        )
        print_table(("SESSION", "CHANGED", "SESSIONS", "WHY", "TITLE"), rows)
    for line in _lines(report):
        click.echo(printable(line))
    for note in report.notes:
        click.echo(printable(f"note: {note}"), err=True)
    return 0


def _lines(report: RetentionReport) -> Iterator[str]:
    verb = "would be removed" if report.dry_run else "removed"
    yield (
        f"{len(report.items):,} of {report.trees:,} sessions {verb}, and what was left of {report.deleted:,} deleted "
        f"ones; {report.pinned:,} are pinned, {report.busy:,} work or wait"
    )
    if report.dry_run and len(report.items) > SHOWN:
        yield f"the first {SHOWN} are listed; --json lists all"
    if report.exported:
        yield f"{len(report.exported):,} bundles were written before"
    if not report.dry_run:
        yield (
            f"{report.events:,} events, {report.files:,} files of tools ({size(report.bytes)}) and "
            f"{report.snapshots:,} objects of file snapshots are gone; the file is {size(report.freed)} smaller"
        )
