"""`holdfast sessions purge`, `pin` and `unpin`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import fail, run_on_host
from holdfast.cli.completion import complete
from holdfast.cli.output import json_option, print_json, printable, size
from holdfast.cli.session_choice import run_on_session, session_argument, session_of

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.retention import PurgeReport

SHOWN = 20


@click.command(short_help="Remove sessions for good, with their events and files.")
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION…", shell_complete=complete("sessions"))
@click.option("--yes", is_flag=True, help="Purge without asking.")
@json_option
def purge(sessions: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Stop sessions and remove them for good, with those of their subagents.

    Removes their events, messages and attachments, what tools saved to files, isolated copies, and file snapshots that
    no other session needs, and checks that no table has a row of them. Sessions that were deleted before are purged by
    their id. A session that others were forked from is refused unless these are named too. The same command completes a
    purge that was interrupted."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("standard input is not a terminal, so nobody can confirm; --yes purges without asking")
    run_on_host(lambda client: _purge(client, sessions, ask=not yes, as_json=as_json))


@click.command()
@session_argument
def pin(session_id: str) -> None:
    """Keep a session: retention never removes it, nor what belongs to its tree."""
    run_on_session(session_id, lambda client, id: _pin(client, id, pinned=True))


@click.command()
@session_argument
def unpin(session_id: str) -> None:
    """Let retention remove a session again."""
    run_on_session(session_id, lambda client, id: _pin(client, id, pinned=False))


async def _purge(client: AsyncClient, names: tuple[str, ...], *, ask: bool, as_json: bool) -> int:
    from holdfast.cli.terminal import Terminal

    ids = [await session_of(client, name) for name in names]
    what = ids[0] if len(ids) == 1 else f"{len(ids)} sessions"
    if ask and not await Terminal().confirm(f"Remove {what} for good, with everything below? It cannot be undone."):
        return fail("nothing was removed.")
    report = await client.sessions.purge(sessions=tuple(ids))
    if as_json:
        print_json(report)
        return 0
    click.echo(_described(report))
    for note in report.notes:
        click.echo(printable(f"note: {note}"), err=True)
    return 0


async def _pin(client: AsyncClient, session_id: str, *, pinned: bool) -> int:
    await client.sessions.pin(session_id, pinned=pinned)
    return 0


def _described(report: PurgeReport) -> str:
    shown = ", ".join(report.sessions[:SHOWN])
    more = f" and {len(report.sessions) - SHOWN:,} more" if len(report.sessions) > SHOWN else ""
    return (
        f"removed {shown}{more}: {report.events:,} events, {report.files:,} files of tools ({size(report.bytes)}), "
        f"{report.snapshots:,} objects of file snapshots; no table has a row of them any more"
    )
