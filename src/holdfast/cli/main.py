"""`holdfast`: the commands. Each is a module of its own which is loaded when it is called, and loads the rest when it
runs, so that `--help` needs click only."""

from __future__ import annotations

import gc
import io
import os
import sys
from importlib import import_module

import click

from holdfast.cli.command_runner import INTERRUPTED, fail
from holdfast.schema.version import __version__

YOUNG_OBJECTS = 50_000
"""New objects before a garbage collection. Python's 700 means hundreds of collections while the modules are imported,
which find nothing and take a twentieth of a cold start."""

COMMANDS = (
    "run",
    "sessions",
    "context",
    "serve",
    "models",
    "agents",
    "commands",
    "skills",
    "auth",
    "config",
    "trust",
    "doctor",
)


class Commands(click.Group):
    """In the order of `COMMANDS`; each module has its command under the name `command`."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        found: click.Command = import_module(f"holdfast.cli.{name}").command
        return found

    def invoke(self, context: click.Context) -> object:
        """Ctrl-C means the same everywhere, also before there is a loop, and at a question of click's own."""
        try:
            return super().invoke(context)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def cli() -> None:
    """Durable agent sessions: nothing lost, nothing stuck, nothing repeated."""


def main() -> None:
    gc.set_threshold(YOUNG_OBJECTS)
    _prepare_streams()
    try:
        cli(prog_name="holdfast")
    except OSError as error:
        sys.exit(_unusable(error))


def _prepare_streams() -> None:
    """What the caller closed leads nowhere: otherwise the next file that is opened would take its place. What a
    terminal's encoding does not know is spelled out instead of ending the program."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _unusable(error: OSError) -> int:
    """One line about a file, a folder or a stream that the system refuses, and no second failure at the exit."""
    where = error.filename
    for stream, name in ((sys.stdout, "standard output"), (sys.stderr, "standard error")):
        try:
            stream.flush()
        except OSError:
            where = name
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if where is None and not _here():
        where = "the current directory"
    reason = error.strerror or str(error)
    return fail(f"{where}: {reason}" if where else reason)


def _here() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True
