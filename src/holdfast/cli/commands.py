"""`holdfast commands`: prompts that have a name."""

from __future__ import annotations

import sys

import click

from holdfast.cli.output import brief, json_option, print_json, print_table


@click.command("commands", short_help="List the commands of this directory.")
@json_option
def command(as_json: bool) -> None:
    """List the commands of this directory; `holdfast run --command NAME` calls one."""
    from holdfast.cli.command_runner import execute

    sys.exit(execute(_list(as_json)))


async def _list(as_json: bool) -> int:
    from holdfast.embedded.holdfast import Holdfast

    async with Holdfast(recover=False) as hf:
        commands = (await hf.commands.list()).data
    if as_json:
        print_json(commands)
        return 0
    rows = ((found.name, found.agent, brief(found.description or found.template)) for found in commands)
    print_table(("COMMAND", "AGENT", "DESCRIPTION"), rows)
    return 0
