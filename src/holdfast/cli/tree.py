"""`holdfast sessions tree`, `interrupt` and `background`: shows what a tree of Sessions does, stops it, and lets
subagents go on in the background."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.completion import complete
from holdfast.cli.output import json_option, one_line
from holdfast.cli.session_choice import session_argument, session_of

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient

attach_option = click.option("--attach", metavar="URL", help="Use the server at this address.")


@click.command("tree", short_help="Show a session and the sessions below it.")
@click.argument("session_id", metavar="[SESSION]", required=False, shell_complete=complete("sessions"))
@click.option(
    "--follow", is_flag=True, help="Show the tree again whenever it changes, until nothing in it runs or waits."
)
@attach_option
@json_option
def tree(session_id: str | None, follow: bool, attach: str | None, as_json: bool) -> None:
    """Show a session and the sessions below it: what each does, waits for, and has used.

    Without SESSION it is the newest one of the directory that has no parent. The last line has the sums of all."""
    if follow and as_json:
        raise click.UsageError("--follow cannot be combined with --json")
    from holdfast.cli.command_runner import execute
    from holdfast.cli.tree_view import show, with_client

    sys.exit(execute(with_client(attach, lambda client: show(client, session_id, follow=follow, as_json=as_json))))


@click.command("interrupt", short_help="Stop what a session does.")
@session_argument
@click.option("--background", is_flag=True, help="Also stop its subagents in the background, and everything below.")
@attach_option
def interrupt(session_id: str, background: bool, attach: str | None) -> None:
    """Stop what a session does, with the subagents that it waits for, and return when that is recorded."""

    async def work(client: AsyncClient) -> int:
        chosen = await session_of(client, session_id)
        await client.sessions.interrupt(chosen, background=background or None)
        return 0

    from holdfast.cli.command_runner import execute
    from holdfast.cli.tree_view import with_client

    sys.exit(execute(with_client(attach, work)))


@click.command("background", short_help="Let a session go on without waiting for its subagents.")
@session_argument
@attach_option
def background(session_id: str, attach: str | None) -> None:
    """Let the subagents that a session waits for go on in the background. Their results come as messages."""

    async def work(client: AsyncClient) -> int:
        chosen = await session_of(client, session_id)
        nodes = (await client.sessions.tree(chosen)).nodes
        tasks = [(node.id, node.task) for node in nodes if node.parent_id == nodes[0].id and node.task is not None]
        awaited = [(id, task) for id, task in tasks if task.status == "running" and not task.background]
        await client.sessions.background(chosen)
        for id, task in awaited:
            click.echo(f"{id}  {one_line(task.agent)}  {one_line(task.description)}")
        if not awaited:
            click.echo(f"{chosen} waits for no subagent", err=True)
        return 0

    from holdfast.cli.command_runner import execute
    from holdfast.cli.tree_view import with_client

    sys.exit(execute(with_client(attach, work)))
