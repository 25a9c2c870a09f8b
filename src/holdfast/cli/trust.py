"""`holdfast trust`: shows the settings of a project that need trust, and decides about them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import FAILED, execute
from holdfast.cli.output import json_option, print_json, printable

if TYPE_CHECKING:
    from holdfast.cli.terminal import Terminal
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.configuration import ConfigProblem, ConfigReport
    from holdfast.schema.location import Location

EXPLANATION = "Without trust a project can only restrict what you allow; the settings above are ignored."


@click.command("trust")
@click.argument("path", required=False, type=click.Path(exists=True, file_okay=False))
@click.option("--revoke", is_flag=True, help="Remove trust from PATH and everything below it.")
@click.option("--list", "listed", is_flag=True, help="List everything that is trusted.")
@click.option("--yes", is_flag=True, help="Trust without asking.")
@json_option
def command(path: str | None, revoke: bool, listed: bool, yes: bool, as_json: bool) -> None:
    """Show the settings of the project in PATH (or here) that need your trust, and decide about them.

    A project's configuration may name providers, commands that run, plugins, MCP servers and wider permissions. They
    have no effect until you trust them. The decision is for exactly these settings: a changed one needs a new one. MCP
    servers of your own start in the project's directory once you trust that."""
    if revoke + listed + yes > 1:
        raise click.UsageError("--revoke, --list and --yes exclude each other")
    sys.exit(execute(_list(as_json) if listed else _revoke(path) if revoke else _decide(path, yes, as_json)))


async def _list(as_json: bool) -> int:
    from holdfast.embedded.trust import ProjectTrust

    paths = [str(path) for path in ProjectTrust().list()]
    if as_json:
        print_json(paths)
    for path in () if as_json else paths:
        click.echo(printable(path))
    return 0


async def _revoke(path: str | None) -> int:
    from holdfast.embedded.trust import ProjectTrust

    gone = ProjectTrust().revoke(path or ".")
    for one in gone:
        click.echo(printable(f"no longer trusted: {one}"))
    if not gone:
        click.echo(printable(f"nothing in {path or 'this directory'} was trusted"), err=True)
    await _reload_server(path)
    return 0


async def _decide(path: str | None, yes: bool, as_json: bool) -> int:
    from holdfast.cli.config import quiet_configuration
    from holdfast.cli.terminal import Terminal, present
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.embedded.trust import ProjectTrust

    with quiet_configuration():
        async with Holdfast(path, preset="allow", recover=False) as host:
            report = await host.config.report()
    if as_json and not yes:
        print_json(report.sources)
        return 0
    if not report.sources:
        click.echo("no setting of this project needs trust", err=True)
        return 0
    for source in report.sources:
        click.echo(printable(f"{source.path}{' (trusted)' if source.trusted else ''}"))
        for line in (*source.wants, *(source.never or ())):
            click.echo(printable(f"  {line}"))
    untrusted = [source for source in report.sources if not source.trusted]
    if not untrusted:
        return 0
    if not yes:
        if not present():
            click.echo(f"{EXPLANATION} `holdfast trust --yes` trusts them.", err=True)
            return FAILED
        if not await Terminal().confirm("Trust these settings?"):
            ProjectTrust().decline(untrusted)
            return FAILED
    ProjectTrust().grant(untrusted)
    click.echo("trusted", err=True)
    await _reload_server(path)
    return 0


async def configuration_notes(client: AsyncClient, location: Location, terminal: Terminal | None) -> list[str]:
    """Ask the person once about settings of the project that need trust. Returns lines about ignored settings and
    configuration problems."""
    from holdfast.cli.config import summary
    from holdfast.client.errors import ApiError, ClientError

    try:
        report = await client.config.report(location=location)
    except (ApiError, ClientError):
        return []  # a server of another version; any other failure shows in the next call
    untold = [problem for problem in report.problems if not _about_trust(problem, report)]
    notes = (await _offer(client, location, report, terminal), summary(untold))
    return [note for note in notes if note is not None]


def _about_trust(problem: ConfigProblem, report: ConfigReport) -> bool:
    return any(want in problem.message for source in report.sources if not source.trusted for want in source.wants)


async def _offer(
    client: AsyncClient, location: Location, report: ConfigReport, terminal: Terminal | None
) -> str | None:
    """A line about the ignored settings, if the run goes on without trust. Nobody is asked about the directory alone:
    most projects have no settings, and `holdfast mcp list` tells where servers start."""
    sources = [source for source in report.sources if not source.trusted]
    if all(source.directory for source in sources):
        return None
    from holdfast.embedded.trust import ProjectTrust

    trust = ProjectTrust()
    count = sum(len(source.wants) for source in sources if not source.directory)
    ignored = f"this project is not trusted: {count} of its settings {'is' if count == 1 else 'are'} ignored"
    undecided = trust.undecided(sources)
    if terminal is None or all(source.directory for source in undecided):
        return f"{ignored} (`holdfast trust` shows them)"
    terminal.discard_typed()
    terminal.say("? this project has settings that need your trust:")
    for source in undecided:
        terminal.say(f"  {source.path}")
        for line in (*source.wants, *(source.never or ())):
            terminal.say(f"    {line}")
    if not await terminal.confirm("  trust them?"):
        trust.decline(undecided)
        return f"{ignored} (`holdfast trust` changes that)"
    trust.grant(undecided)
    await client.config.reload(location=location)
    return None


async def _reload_server(path: str | None) -> None:
    """Let a server on the same data read the configuration again."""
    import os
    from contextlib import AsyncExitStack, suppress

    from holdfast.cli.remote import find_server
    from holdfast.client.errors import ApiError, ClientError
    from holdfast.schema.location import Location

    async with AsyncExitStack() as stack:
        if (server := await find_server(stack)) is not None:
            with suppress(ApiError, ClientError):
                await server.client.config.reload(location=Location(directory=os.path.realpath(path or ".")))
