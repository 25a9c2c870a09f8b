"""`holdfast commands`: lists the commands of the current directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import run_on_host
from holdfast.cli.output import brief, json_option, print_json, print_table

if TYPE_CHECKING:
    from holdfast.embedded.holdfast import Holdfast


@click.command("commands", short_help="List the commands of this directory.")
@json_option
def command(as_json: bool) -> None:
    """List the commands of this directory; `holdfast run "/NAME ARGUMENTS"` calls one."""
    run_on_host(lambda host: _list(host, as_json))


async def _list(host: Holdfast, as_json: bool) -> int:
    commands = (await host.commands.list()).data
    if as_json:
        print_json(commands)
        return 0
    rows = ((found.name, found.agent, brief(found.description or found.template)) for found in commands)
    print_table(("COMMAND", "AGENT", "DESCRIPTION"), rows)
    return 0
