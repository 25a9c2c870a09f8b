"""`holdfast trust`: what a project's configuration wants, and whether it may have it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.output import json_option, print_json, printable

if TYPE_CHECKING:
    from holdfast.cli.terminal import Terminal
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.configuration import ConfigProblem, ConfigReport
    from holdfast.schema.location import Location

EXPLANATION = "Without trust a project can only narrow what you allow; these settings are ignored."


@click.command("trust")
@click.argument("path", required=False, type=click.Path(exists=True, file_okay=False))
@click.option("--revoke", is_flag=True, help="Trust nothing in PATH and below it any more.")
@click.option("--list", "listed", is_flag=True, help="Show everything that is trusted.")
@click.option("--yes", is_flag=True, help="Trust without asking.")
@json_option
def command(path: str | None, revoke: bool, listed: bool, yes: bool, as_json: bool) -> None:
    """Show what the project in PATH (or here) wants beyond narrowing your own settings, and decide about it.

    A project's configuration may name providers, commands that run, plugins, MCP servers and wider permissions. None of
    that counts until you trust it. The decision holds for these settings as they are: a change asks again."""
    from holdfast.cli.command_runner import execute

    if revoke + listed + yes > 1:
        raise click.UsageError("choose one of --revoke, --list and --yes")
    sys.exit(execute(_listed(as_json) if listed else _revoked(path) if revoke else _decide(path, yes, as_json)))


async def _listed(as_json: bool) -> int:
    from holdfast.embedded.trust import ProjectTrust

    paths = [str(path) for path in ProjectTrust().list()]
    if as_json:
        print_json(paths)
    for path in () if as_json else paths:
        click.echo(printable(path))
    return 0


async def _revoked(path: str | None) -> int:
    from holdfast.embedded.trust import ProjectTrust

    gone = ProjectTrust().revoke(path or ".")
    for one in gone:
        click.echo(printable(f"not trusted any more: {one}"))
    if not gone:
        click.echo("nothing was trusted here", err=True)
    await _tell_server(path)
    return 0


async def _decide(path: str | None, yes: bool, as_json: bool) -> int:
    from holdfast.cli.command_runner import FAILED
    from holdfast.cli.host import Host, quiet_configuration
    from holdfast.cli.terminal import Terminal, present
    from holdfast.embedded.trust import ProjectTrust

    with quiet_configuration():
        async with Host(path) as host:
            report = await host.config.report()
    if as_json and not yes:
        print_json(report.sources)
        return 0
    if not report.sources:
        click.echo("this project wants nothing that needs trust", err=True)
        return 0
    for source in report.sources:
        click.echo(printable(f"{source.path}{' (trusted)' if source.trusted else ''}"))
        for line in source.wants:
            click.echo(printable(f"  {line}"))
    untrusted = [source for source in report.sources if not source.trusted]
    if not untrusted:
        return 0
    if not yes:
        if not present():
            click.echo(f"{EXPLANATION} `holdfast trust --yes` trusts them.", err=True)
            return FAILED
        if not await confirmed(Terminal(), "Trust these settings?"):
            ProjectTrust().decline(untrusted)
            return FAILED
    ProjectTrust().grant(untrusted)
    click.echo("trusted", err=True)
    await _tell_server(path)
    return 0


async def configuration_notes(client: AsyncClient, location: Location, terminal: Terminal | None) -> list[str]:
    """At the beginning of a run: ask once about what an untrusted project wants, and say what of the configuration
    does not count."""
    from holdfast.cli.config import summary
    from holdfast.client.errors import ApiError, ClientError

    try:
        report = await client.config.report(location=location)
    except (ApiError, ClientError):
        return []  # a server of another kind or version; what else is wrong, the next call says
    untold = [problem for problem in report.problems if not _about_trust(problem, report)]
    notes = (await _offer(client, location, report, terminal), summary(untold))
    return [note for note in notes if note is not None]


def _about_trust(problem: ConfigProblem, report: ConfigReport) -> bool:
    return any(want in problem.message for source in report.sources if not source.trusted for want in source.wants)


async def _offer(
    client: AsyncClient, location: Location, report: ConfigReport, terminal: Terminal | None
) -> str | None:
    """What is to be said if it goes on without trust."""
    sources = [source for source in report.sources if not source.trusted]
    if not sources:
        return None
    from holdfast.embedded.trust import ProjectTrust

    trust = ProjectTrust()
    count = sum(len(source.wants) for source in sources)
    ignored = f"this project is not trusted: {count} of its settings {'is' if count == 1 else 'are'} ignored"
    undecided = trust.undecided(sources)
    if terminal is None or not undecided:
        return f"{ignored} (`holdfast trust` shows them)"
    terminal.forget_typed()
    terminal.say("? this project's configuration wants more than an untrusted project may have:")
    for source in undecided:
        terminal.say(f"  {source.path}")
        for line in source.wants:
            terminal.say(f"    {line}")
    if not await confirmed(terminal, "  trust it?"):
        trust.decline(undecided)
        return f"{ignored} (`holdfast trust` changes that)"
    trust.grant(undecided)
    await client.config.reload(location=location)
    return None


async def confirmed(terminal: Terminal, question: str) -> bool:
    """Asks until the answer is clear; the end of input is a no."""
    while True:
        line = await terminal.ask(f"{question} [y/N]")
        if line is None or line.lower() in ("", "n", "no"):
            return False
        if line.lower() in ("y", "yes"):
            return True
        terminal.say("  Please answer y or n.")


async def _tell_server(path: str | None) -> None:
    """A server that runs on the same data has read the configuration already."""
    import os
    from contextlib import AsyncExitStack, suppress

    from holdfast.cli.remote import find_server
    from holdfast.client.errors import ApiError, ClientError
    from holdfast.schema.location import Location

    async with AsyncExitStack() as stack:
        if (server := await find_server(stack)) is not None:
            with suppress(ApiError, ClientError):
                await server.client.config.reload(location=Location(directory=os.path.realpath(path or ".")))
