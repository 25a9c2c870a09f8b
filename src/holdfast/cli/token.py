"""`holdfast token`: makes, lists and revokes tokens, with which others use a server."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import run_on_host
from holdfast.cli.help import HelpfulGroup
from holdfast.cli.output import json_option, moment, print_json, print_table

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.access import Role

ROLES = ("read", "prompt", "approve", "admin")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
AGENTS_ACT = (
    "agents do what the rules allow them without asking: look at `holdfast config preset`, and at the sandbox, "
    "before you give somebody the role prompt"
)


class Duration(click.ParamType[int]):
    """A number of seconds, given as in `30d`."""

    name = "duration"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if (found := re.fullmatch(r"([0-9]{1,6})([smhdw])", value)) is None or int(found[1]) == 0:
            self.fail(f"{value!r} is no duration: give a number and s, m, h, d or w, as in 30d", param, ctx)
        return int(found[1]) * UNITS[found[2]]


@click.group("token", cls=HelpfulGroup)
def command() -> None:
    """Make, list and revoke tokens, with which others use a server on this data."""


@command.command(short_help="Make a token and print it.")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    required=True,
    help="What it may do: look; also prompt; also answer requests; everything.",
)
@click.option("--expires", "seconds", type=Duration(), metavar="TIME", help="How long it is valid, as in 12h or 30d.")
@click.option(
    "--project",
    "projects",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="Limit it to sessions and files of this directory; repeatable.",
)
@json_option
def create(name: str, role: Role, seconds: int | None, projects: tuple[str, ...], as_json: bool) -> None:
    """Make a token and print it. It is stored as a hash, and cannot be shown again.

    Clients send it as `Authorization: Bearer TOKEN`, or as the password of Basic credentials; people can sign in to the
    page with it."""
    real = tuple(os.path.realpath(project) for project in projects)
    run_on_host(lambda client: _create(client, name, role, seconds, real, as_json))


@command.command("list")
@json_option
def listing(as_json: bool) -> None:
    """List the tokens, without their secrets."""
    run_on_host(lambda client: _list(client, as_json))


@command.command()
@click.argument("name")
def revoke(name: str) -> None:
    """Revoke a token: nobody can use it any more, and what was opened with it ends."""
    run_on_host(lambda client: _revoke(client, name))


async def _create(
    client: AsyncClient, name: str, role: Role, seconds: int | None, projects: tuple[str, ...], as_json: bool
) -> int:
    made = await client.tokens.create(name=name, role=role, seconds=seconds, projects=projects)
    if as_json:
        print_json(made)
        return 0
    click.echo(made.token)
    until = f"until {moment(made.info.expires)}" if made.info.expires is not None else "until it is revoked"
    where = f" in {', '.join(projects)}" if projects else ""
    click.echo(f"{name} has the role {role}{where}, {until}. The token is not shown again.", err=True)
    if role in ("prompt", "approve"):
        click.echo(f"note: {AGENTS_ACT}", err=True)
    return 0


async def _list(client: AsyncClient, as_json: bool) -> int:
    found = await client.tokens.list()
    if as_json:
        print_json(found)
    elif not found:
        click.echo("no tokens; `holdfast token create NAME --role ROLE` makes one", err=True)
    else:
        rows = (
            (
                token.name,
                token.role,
                moment(token.created),
                moment(token.seen) if token.seen is not None else "never",
                moment(token.expires) if token.expires is not None else "never",
                ", ".join(token.projects) or "all",
            )
            for token in found
        )
        print_table(("NAME", "ROLE", "CREATED", "USED", "EXPIRES", "PROJECTS"), rows)
    return 0


async def _revoke(client: AsyncClient, name: str) -> int:
    await client.tokens.revoke(name)
    click.echo(f"{name} is revoked")
    return 0
