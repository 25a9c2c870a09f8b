"""`holdfast doctor`: checks the database, the configuration files and the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import FAILED, run_on_host
from holdfast.cli.output import json_option, one_line, print_json, print_table, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.configuration import SandboxInfo

SHOWN = 20


@click.command("doctor")
@click.option("--rebuild", is_flag=True, help="Rebuild everything that clients see from the event log.")
@click.option("--disk", is_flag=True, help="Only tell what uses the disk, and what could be freed.")
@json_option
def command(rebuild: bool, disk: bool, as_json: bool) -> None:
    """Check the database, the configuration, the sandbox and what is around them.

    Compares what clients see with the event log, looks for settings that have no effect in the configuration files of
    this directory, and at the disk, the processes on the data, the rights of its files, the clock, models and MCP
    servers. Each finding says what to do. Exits with 1 if rows differ or a file cannot be used."""
    from holdfast.cli.config import quiet_configuration

    if disk and rebuild:
        raise click.UsageError("--disk changes nothing, so it does not go with --rebuild.")
    with quiet_configuration():
        if disk:
            run_on_host(lambda host: _disk(host, as_json))
        run_on_host(lambda host: _report(host, rebuild) if as_json else _examine(host, rebuild))


async def _disk(host: Holdfast, as_json: bool) -> int:
    report = await host.system.disk()
    if as_json:
        print_json(report)
        return 0
    free = f", {size(report.free)} are free on its disk" if report.free is not None else ""
    click.echo(printable(f"data is in {report.data}{free}"))
    uses = ((use.name, size(use.bytes), size(use.free) if use.free else "", use.how) for use in report.uses)
    print_table(("WHAT", "SIZE", "CAN BE FREED", "HOW"), uses, right=("SIZE", "CAN BE FREED"))
    if report.largest:
        click.echo("\nthe sessions with the most events, by size:")
        rows = (
            (large.id, size(large.bytes), f"{large.events:,}", one_line(large.title or "(deleted)"))
            for large in report.largest
        )
        print_table(("SESSION", "SIZE", "EVENTS", "TITLE"), rows, right=("SIZE", "EVENTS"))
    return 0


async def _report(host: Holdfast, rebuild: bool) -> int:
    if rebuild:
        await host.rebuild()
    report = await host.system.doctor()
    print_json(report)
    return FAILED if any(finding.level == "error" for finding in report.findings) else 0


async def _examine(host: Holdfast, rebuild: bool) -> int:
    from holdfast.cli.config import described, refused

    click.echo(printable(f"sessions are stored in {await host.describe_store()}"))
    if rebuild:
        click.echo(f"rebuilt {await host.rebuild()} sessions from the event log")
    findings = (await host.system.doctor()).findings
    mismatches = await host.verify() if any(finding.check == "rows" for finding in findings) else []
    config = await host.config.report()
    sandbox = await host.sandbox.get(probe=True)
    for mismatch in mismatches[:SHOWN]:
        click.echo(
            f"{mismatch.aggregate_id} {mismatch.table}: {mismatch.stored} should be {mismatch.rebuilt}", err=True
        )
    if mismatches:
        click.echo(
            f"{len(mismatches)} rows differ from the event log; `holdfast doctor --rebuild` repairs them", err=True
        )
    else:
        click.echo("all rows agree with the event log")
    for line in _sandbox_lines(sandbox):
        click.echo(printable(line))
    for problem in config.problems:
        click.echo(printable(described(problem)), err=True)
    if not config.problems:
        click.echo(f"no problems in {len(config.files)} configuration files")
    around = [finding for finding in findings if finding.check not in ("rows", "configuration")]
    for finding in around:
        click.echo(printable(f"{finding.level}: {finding.what}\n  {finding.fix}"), err=True)
    if not around:
        click.echo("no problems with disk, processes, files, clock, models and MCP servers")
    failed = any(finding.level == "error" for finding in around)
    return FAILED if mismatches or refused(config) or failed else 0


def _sandbox_lines(info: SandboxInfo) -> Iterator[str]:
    from holdfast.cli.notes import sandbox_note

    yield sandbox_note(info) or "sandbox off"
    if info.backend is None:
        yield f"this machine cannot confine commands: {info.problem}"
    else:
        yield f"this machine can confine commands ({info.backend})"
        yield from (f"{info.backend}: {gap}" for gap in info.gaps)
