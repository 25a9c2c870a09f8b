"""`holdfast audit` and `holdfast sessions audit`: who did what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import run_on_host
from holdfast.cli.output import brief, json_option, moment, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.client.call import Listing
    from holdfast.schema.audit import AuditEntry

NOBODY = "-"
ELSEWHERE = " (elsewhere)"
"""Behind a name that came with a bundle: nobody here goes by it."""


@click.command("audit", short_help="Show who changed what outside of sessions.")
@json_option
def command(as_json: bool) -> None:
    """Show who changed what through a server, oldest first: tokens, configuration, credentials, MCP servers, terminals,
    deleted and imported sessions. `holdfast sessions audit` shows what was done in a session."""
    run_on_host(lambda client: print_audit(lambda after: client.system.audit(after=after), as_json=as_json))


async def print_audit(
    page: Callable[[int], Awaitable[Listing[AuditEntry]]], *, as_json: bool, tree: bool = False
) -> int:
    found: list[AuditEntry] = []
    more = True
    while more:
        read = await page(len(found))
        found += read.items
        more = read.has_more and bool(read.items)
    if as_json:
        print_json(found)
    elif not found:
        click.echo("nothing was recorded", err=True)
    else:
        several = tree and len({entry.session_id for entry in found}) > 1
        headings = ("TIME", "WHO", *(["SESSION"] if several else []), "WHAT", "ABOUT")
        rows = (
            (
                moment(entry.time),
                f"{entry.who or NOBODY}{ELSEWHERE if entry.elsewhere else ''}",
                *([entry.session_id] if several else []),
                entry.what,
                brief(" ".join(filter(None, (entry.subject, entry.detail, None if tree else entry.session_id)))),
            )
            for entry in found
        )
        print_table(headings, rows)
    return 0
