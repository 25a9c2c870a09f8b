"""`holdfast agents`: who can speak for a session here."""

from __future__ import annotations

import sys

import click

from holdfast.cli.output import brief, json_option, print_json, print_table


@click.command("agents")
@click.option("--all", "hidden_too", is_flag=True, help="Also hidden ones, which the runtime uses itself.")
@json_option
def command(hidden_too: bool, as_json: bool) -> None:
    """List the agents of this directory."""
    from holdfast.cli.command_runner import execute

    sys.exit(execute(_list(hidden_too, as_json)))


async def _list(hidden_too: bool, as_json: bool) -> int:
    from holdfast.embedded.holdfast import Holdfast

    async with Holdfast(recover=False) as hf:
        agents = [agent for agent in (await hf.agents.list()).data if hidden_too or not agent.hidden]
    if as_json:
        print_json(agents)
        return 0
    rows = (
        (agent.id, agent.mode, f"{agent.model.provider_id}/{agent.model.id}" if agent.model else "", agent.description)
        for agent in agents
    )
    print_table(("AGENT", "MODE", "MODEL", "DESCRIPTION"), ((*row[:3], brief(row[3] or "")) for row in rows))
    return 0
