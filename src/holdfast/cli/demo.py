"""`holdfast demo`: fills the database with Sessions that show what Holdfast does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import INTERRUPTED, execute
from holdfast.cli.output import printable

if TYPE_CHECKING:
    from holdfast.embedded.demo.run import Made


@click.command("demo")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the small project of the story is made.  [default: holdfast-demo in the data directory]",
)
@click.option("--again", is_flag=True, help="Play the story again, in another folder, if it is there already.")
def command(directory: Path | None, again: bool) -> None:
    """Make a few sessions that show every view of the page: a small bug fix with tools, a question, a subagent, a crash
    and its recovery, and requests that wait for you.

    It takes about fifteen seconds, needs no network and no key, and changes nothing outside its own folder and the
    database."""
    code = execute(_make(directory, again))
    if code == INTERRUPTED:
        click.echo("interrupted; what the demo had made is removed", err=True)
    sys.exit(code)


async def _make(directory: Path | None, again: bool) -> int:
    from holdfast.embedded.demo.run import make_demo

    made = await make_demo(
        directory.absolute() if directory else None, lambda what: click.echo(f"  {what}", err=True), again=again
    )
    for line in _lines(made):
        click.echo(printable(line))
    return 0


def _lines(made: Made) -> tuple[str, ...]:
    state = "are there already; `holdfast demo --again` makes another set" if made.existed else "are ready"
    return (
        f"The {made.sessions} sessions of the demo {state}.",
        f"Their project: {made.directory}",
        f"`holdfast web` shows them. Begin with session {made.session_id}, and answer what needs you.",
    )
