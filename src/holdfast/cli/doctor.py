"""`holdfast doctor`: the projections against the log, the configuration files, and the sandbox."""

from __future__ import annotations

import sys

import click

from holdfast.cli.output import printable

SHOWN = 20


@click.command("doctor")
@click.option("--rebuild", is_flag=True, help="Write all projections anew from the event log.")
def command(rebuild: bool) -> None:
    """Check the database, the configuration and the sandbox.

    Does everything clients see agree with the event log, and does everything in the configuration files of this
    directory count? Exits with 1 if not."""
    from holdfast.cli.command_runner import execute

    sys.exit(execute(_examine(rebuild)))


async def _examine(rebuild: bool) -> int:
    from holdfast.cli.command_runner import FAILED
    from holdfast.cli.config import described, refused
    from holdfast.cli.host import Host, quiet_configuration

    with quiet_configuration():
        async with Host() as host:
            if rebuild:
                click.echo(f"rebuilt {await host.rebuild()} sessions from the event log")
            mismatches = await host.verify()
            config = await host.config.report()
            sandbox = await host.sandbox_lines()
    for mismatch in mismatches[:SHOWN]:
        click.echo(
            f"{mismatch.aggregate_id} {mismatch.table}: {mismatch.stored} should be {mismatch.rebuilt}", err=True
        )
    if mismatches:
        click.echo(
            f"{len(mismatches)} rows differ from the event log; `holdfast doctor --rebuild` repairs them", err=True
        )
    else:
        click.echo("everything agrees with the event log")
    for line in sandbox:
        click.echo(printable(line))
    for problem in config.problems:
        click.echo(printable(described(problem)), err=True)
    if not config.problems:
        click.echo(f"nothing to complain about in {len(config.files)} configuration files")
    return FAILED if mismatches or refused(config) else 0
