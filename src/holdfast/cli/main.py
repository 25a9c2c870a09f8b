"""`holdfast`: the commands. Each is a module of its own which is loaded when it is called, and loads the rest when it
runs, so that `--help` needs click only."""

from __future__ import annotations

from importlib import import_module

import click

from holdfast.schema.version import __version__

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


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def cli() -> None:
    """Durable agent sessions: nothing lost, nothing stuck, nothing repeated."""


def main() -> None:
    cli(prog_name="holdfast")


if __name__ == "__main__":
    main()
