"""`holdfast agents`: lists the agents of the current directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import run_on_host
from holdfast.cli.output import brief, json_option, print_json, print_table

if TYPE_CHECKING:
    from holdfast.embedded.holdfast import Holdfast


@click.command("agents")
@click.option("--all", "with_hidden", is_flag=True, help="Also list hidden agents, which the runtime itself uses.")
@json_option
def command(with_hidden: bool, as_json: bool) -> None:
    """List the agents of this directory."""
    run_on_host(lambda host: _list(host, with_hidden, as_json))


async def _list(host: Holdfast, with_hidden: bool, as_json: bool) -> int:
    agents = [agent for agent in (await host.agents.list()).data if with_hidden or not agent.hidden]
    if as_json:
        print_json(agents)
        return 0
    rows = (
        (
            agent.id,
            agent.mode,
            f"{agent.model.provider_id}/{agent.model.id}" if agent.model else "",
            brief(agent.description or ""),
        )
        for agent in agents
    )
    print_table(("AGENT", "MODE", "MODEL", "DESCRIPTION"), rows)
    return 0
