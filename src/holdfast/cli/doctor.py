"""`holdfast doctor`: checks the database, the configuration files and the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import FAILED, run_on_host
from holdfast.cli.output import json_option, print_json, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.configuration import SandboxInfo

SHOWN = 20


@click.command("doctor")
@click.option("--rebuild", is_flag=True, help="Rebuild everything that clients see from the event log.")
@json_option
def command(rebuild: bool, as_json: bool) -> None:
    """Check the database, the configuration, the sandbox and what is around them.

    Compares what clients see with the event log, looks for settings that have no effect in the configuration files of
    this directory, and at the disk, the processes on the data, the rights of its files, the clock, models and MCP
    servers. Each finding says what to do. Exits with 1 if rows differ or a file cannot be used."""
    from holdfast.cli.config import quiet_configuration

    with quiet_configuration():
        run_on_host(lambda host: _report(host, rebuild) if as_json else _examine(host, rebuild))


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
