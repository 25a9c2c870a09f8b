"""`holdfast config`: what the configuration files say, and what is wrong with them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.output import brief, json_option, one_line, print_json, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.embedded.choices import Preset
    from holdfast.schema.configuration import ConfigProblem, ConfigReport

LINE_CHARACTERS = 400


def described(problem: ConfigProblem) -> str:
    place = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
    hint = f" (did you mean {problem.suggestion}?)" if problem.suggestion else ""
    return f"{problem.severity}: {place}: {problem.message}{hint}"


def summary(problems: Sequence[ConfigProblem]) -> str | None:
    """One line about what does not count, for the start of a command; None when everything does."""
    if not problems:
        return None
    count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
    first = min(problems, key=lambda problem: problem.severity != "error")
    return brief(f"configuration: {count} (`holdfast config check`): {described(first)}", LINE_CHARACTERS)


def refused(report: ConfigReport) -> bool:
    """Whether a file could not be used as it was meant."""
    return any(problem.severity == "error" for problem in report.problems)


@click.group("config")
def command() -> None:
    """Look at the configuration of this directory."""


@command.command()
@json_option
def check(as_json: bool) -> None:
    """Name every file that is read, and what in it does not count.

    Exits with 1 if a file could not be used; warnings alone are no failure."""
    from holdfast.cli.command_runner import execute

    sys.exit(execute(_check(as_json)))


@command.command()
def show() -> None:
    """Print the configuration in force as JSON, all files merged, without secrets."""
    from holdfast.cli.command_runner import execute

    sys.exit(execute(_show()))


@command.command()
@click.argument("name", type=click.Choice(["default", "ask", "sandbox"]))
def preset(name: Preset) -> None:
    """Choose how agents work in all your projects.

    default: they read, edit and run commands in a project without asking. ask: edits, commands and fetches are asked
    for. sandbox: commands can write only in the project and have no network. Your own files count before a preset."""
    from holdfast.embedded.choices import Choices

    Choices().choose(name)
    click.echo(f"chosen: {name} (kept in {printable(str(Choices().path))})", err=True)


@command.command()
def schema() -> None:
    """Print the JSON Schema of a configuration file, for an editor."""
    from holdfast.embedded.holdfast import Holdfast

    print_json(Holdfast.config_schema())


async def _check(as_json: bool) -> int:
    from holdfast.cli.command_runner import FAILED
    from holdfast.cli.host import Host, quiet_configuration

    with quiet_configuration():
        async with Host() as host:
            report = await host.config.report()
    if as_json:
        print_json(report)
    else:
        for path in report.files:
            click.echo(one_line(path))
        for problem in report.problems:
            click.echo(printable(described(problem)))
        if not report.problems:
            click.echo("no problems found" if report.files else "no configuration file", err=True)
    return FAILED if refused(report) else 0


async def _show() -> int:
    from holdfast.cli.host import Host

    async with Host() as host:
        print_json(await host.effective_config())
    return 0
