"""`holdfast doctor`: the projections against the log."""

from __future__ import annotations

import click

from holdfast.cli.failure import FAILED, execute
from holdfast.embedded.holdfast import Holdfast


def examine(*, rebuild: bool) -> int:
    return execute(_examine(rebuild))


async def _examine(rebuild: bool) -> int:
    async with Holdfast() as hf:
        if rebuild:
            click.echo(f"rebuilt {await hf.rebuild()} sessions from the event log")
        mismatches = await hf.verify()
    for mismatch in mismatches[:20]:
        click.echo(
            f"{mismatch.aggregate_id} {mismatch.table}: {mismatch.stored} should be {mismatch.rebuilt}", err=True
        )
    if mismatches:
        click.echo(
            f"{len(mismatches)} rows differ from the event log; `holdfast doctor --rebuild` repairs them", err=True
        )
        return FAILED
    click.echo("everything agrees with the event log")
    return 0
