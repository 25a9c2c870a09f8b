"""`holdfast skills`: lists the skills of the current directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import run_on_host
from holdfast.cli.output import brief, json_option, print_json, print_table

if TYPE_CHECKING:
    from holdfast.embedded.holdfast import Holdfast


@click.command("skills")
@json_option
def command(as_json: bool) -> None:
    """List the skills of this directory."""
    run_on_host(lambda host: _list(host, as_json))


async def _list(host: Holdfast, as_json: bool) -> int:
    skills = (await host.skills.list()).data
    if as_json:
        print_json(skills)
        return 0
    rows = ((skill.name, skill.location, brief(skill.description or "")) for skill in skills)
    print_table(("SKILL", "FILE", "DESCRIPTION"), rows)
    return 0
