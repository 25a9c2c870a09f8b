"""`holdfast skills`: instructions that a model loads when it needs them."""

from __future__ import annotations

import sys

import click

from holdfast.cli.output import brief, json_option, print_json, print_table


@click.command("skills")
@json_option
def command(as_json: bool) -> None:
    """List the skills of this directory."""
    from holdfast.cli.command_runner import execute

    sys.exit(execute(_list(as_json)))


async def _list(as_json: bool) -> int:
    from holdfast.embedded.holdfast import Holdfast

    async with Holdfast(recover=False) as hf:
        skills = (await hf.skills.list()).data
    if as_json:
        print_json(skills)
        return 0
    rows = ((skill.name, skill.location, brief(skill.description or "")) for skill in skills)
    print_table(("SKILL", "FILE", "DESCRIPTION"), rows)
    return 0
