"""`holdfast config`: shows and checks the configuration files of the current directory."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import FAILED, run_on_host
from holdfast.cli.help import HelpfulGroup
from holdfast.cli.output import brief, json_option, one_line, print_json, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.embedded.choices import Preset
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.configuration import ConfigProblem, ConfigReport

LINE_CHARACTERS = 400


def described(problem: ConfigProblem) -> str:
    place = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
    hint = f" (did you mean {problem.suggestion}?)" if problem.suggestion else ""
    return f"{problem.severity}: {place}: {problem.message}{hint}"


def summary(problems: Sequence[ConfigProblem]) -> str | None:
    """One line with the number of problems and the first of them; None without problems."""
    if not problems:
        return None
    count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
    first = min(problems, key=lambda problem: problem.severity != "error")
    return brief(f"configuration: {count} (`holdfast config check`): {described(first)}", LINE_CHARACTERS)


def refused(report: ConfigReport) -> bool:
    """Whether a file has an error, so that it is not used."""
    return any(problem.severity == "error" for problem in report.problems)


@contextmanager
def quiet_configuration() -> Iterator[None]:
    """Keep configuration problems out of the log, for commands that print them."""
    log = logging.getLogger("holdfast.core.config")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


@click.group("config", cls=HelpfulGroup)
def command() -> None:
    """Show and check the configuration of this directory."""


@command.command()
@json_option
def check(as_json: bool) -> None:
    """List the files that are read, and the problems in them.

    Exits with 1 if a file has an error; warnings alone are not a failure."""
    with quiet_configuration():
        run_on_host(lambda host: _check(host, as_json))


@command.command()
def show() -> None:
    """Print the effective configuration as JSON: all files merged, without secrets."""
    run_on_host(_show)


@command.command()
@click.argument("name", type=click.Choice(["default", "ask", "sandbox"]))
def preset(name: Preset) -> None:
    """Choose how agents work in all your projects.

    default: they read, edit and run commands in a project without asking. ask: they ask before edits, fetches,
    and commands that may change something. sandbox: commands can write only in the project and have no network. Your
    own configuration files take precedence over a preset."""
    from holdfast.embedded.choices import Choices

    Choices().choose(name)
    click.echo(f"stored the preset {name} in {printable(str(Choices().path))}", err=True)


@command.command()
def schema() -> None:
    """Print the JSON Schema of a configuration file, for an editor."""
    from holdfast.embedded.holdfast import Holdfast

    print_json(Holdfast.config_schema())


async def _check(host: Holdfast, as_json: bool) -> int:
    report = await host.config.report()
    if as_json:
        print_json(report)
    else:
        for path in report.files:
            click.echo(one_line(path))
        for problem in report.problems:
            click.echo(printable(described(problem)))
        if not report.problems:
            click.echo("no problems found" if report.files else "no configuration file found", err=True)
    return FAILED if refused(report) else 0


async def _show(host: Holdfast) -> int:
    print_json(await host.config.effective())
    return 0
