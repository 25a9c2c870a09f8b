"""`holdfast sessions link`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import execute, fail
from holdfast.cli.output import brief, moment
from holdfast.cli.session_choice import session_argument, session_of

if TYPE_CHECKING:
    from holdfast.schema.permission import PermissionRequest

NO_SERVER = "No server runs on this data, so that nobody could open a link. `holdfast web` starts one."


@click.command("link", short_help="Make a link with which somebody answers one request.")
@session_argument
@click.argument("request_id", metavar="[REQUEST]", required=False)
@click.option("--seconds", type=click.IntRange(10, 86_400), help="How long it can be used.  [default: 900, 15 minutes]")
@click.option(
    "--address",
    metavar="URL",
    help="Where the person reaches the server, as in https://agent.example.  [default: where it listens]",
)
def link(session_id: str, request_id: str | None, seconds: int | None, address: str | None) -> None:
    """Print a link with which a person allows once or rejects one open permission request, without signing in.

    REQUEST is needed if SESSION and the sessions below it have several open permission requests. The link can be used
    once."""
    if address is not None and not address.startswith(("http://", "https://")):
        raise click.BadParameter(f"{address!r} is not a URL, as in https://agent.example", param_hint="--address")
    sys.exit(execute(_link(session_id, request_id, seconds, address)))


async def _link(session_id: str, request_id: str | None, seconds: int | None, address: str | None) -> int:
    from holdfast.client.connect import connect
    from holdfast.embedded.registration import server_of

    server = server_of(dict(os.environ), port=address is None)
    if server is None:
        return fail(NO_SERVER)
    async with connect(server.url) as client:
        session_id = await session_of(client, session_id)
        if request_id is None:
            found = await client.permissions.list(session_id)
            if len(found) != 1:
                return fail(_which(session_id, found))
            request_id = found[0].id
        made = await client.permissions.link(session_id, request_id=request_id, seconds=seconds)
    click.echo((address or server.url).rstrip("/") + made.path)
    click.echo(f"good for one answer until {moment(made.expires)}", err=True)
    return 0


def _which(session_id: str, found: list[PermissionRequest]) -> str:
    if not found:
        return f"{session_id} has no open permission request. `holdfast sessions waits {session_id}` shows its waits."
    lines = (f"  {each.id}  {brief(' '.join((each.action, *each.resources)))}" for each in found)
    return f"{session_id} has several open permission requests; name one of them:\n" + "\n".join(lines)
