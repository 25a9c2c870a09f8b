"""`holdfast attach`, and `holdfast` alone: the interactive terminal.

The first frame is drawn before anything but prompt_toolkit is imported, so this module imports little."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from holdfast.schema.deferred import deferred

if TYPE_CHECKING:
    from holdfast.client import credential
    from holdfast.client.transport import AsyncTransport
    from holdfast.schema.configuration import ConfigSource
    from holdfast.tui import launch as launching
    from holdfast.tui.launch import Host, Launch, Place
else:
    credential = deferred("holdfast.client.credential")
    launching = deferred("holdfast.tui.launch")

THEMES = ("dark", "light", "none")


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


@click.command("attach", short_help="Open a session in the interactive terminal.")
@click.argument("session", required=False)
@click.option("--server", metavar="URL", help="Use the server at this address.")
@click.option("--fork", is_flag=True, help="Go on in a copy of the session.")
@click.option("--theme", type=click.Choice(THEMES), help="The colours.  [default: as the terminal tells]")
@click.option("--linear", is_flag=True, help="Print line by line, for screen readers and simple terminals.")
def command(session: str | None, server: str | None, fork: bool, theme: str | None, linear: bool) -> None:
    """Open SESSION in the interactive terminal: its id, the beginning of it, or its title. Without one, the newest
    session of this directory.

    Without --server it uses the server that runs on your data, and starts one if none runs."""
    if not is_terminal():
        raise click.UsageError("the interactive terminal needs a terminal; `holdfast run` works without one")
    sys.exit(open_terminal(session=session, server=server, fork=fork, theme=theme, linear=linear))


def open_terminal(
    *,
    session: str | None = None,
    server: str | None = None,
    fork: bool = False,
    new: bool = False,
    model: str | None = None,
    agent: str | None = None,
    theme: str | None = None,
    linear: bool = False,
) -> int:
    """Returns the exit code."""
    from holdfast.cli.command_runner import execute

    folder = credential.state_folder(os.environ)
    launch = launching.Launch(
        directory=os.path.realpath(os.getcwd()),
        state_folder=folder,
        session=session,
        fork=fork,
        new=new,
        model=model,
        agent=agent,
        theme=theme,
        elsewhere=server is not None,
    )
    host = launching.Host(GivenServer(server)) if server is not None else launching.Host(LocalServers(), UserTrust)
    if server is None and not (folder / "choices.json").exists() and (code := execute(_first_choice())):
        return code
    return execute(_run(launch, host, linear=linear or os.environ.get("TERM", "dumb") == "dumb"))


async def _run(launch: Launch, host: Host, *, linear: bool) -> int:
    if linear:
        from holdfast.tui.linear_start import run_linear

        return await run_linear(launch, host)
    from holdfast.tui.app import run_terminal

    return await run_terminal(launch, host)


async def _first_choice() -> int:
    from holdfast.cli.first_run import first_choice
    from holdfast.cli.terminal import Terminal

    await first_choice(Terminal())
    return 0


class GivenServer:
    """The server at an address, with the password in the environment."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def find(self) -> Place:
        return launching.Place(self._url, None)

    def connect(self, place: Place) -> AsyncTransport:
        from holdfast.client.connect import transport_to

        return transport_to(place.url, os.environ)


class LocalServers:
    """The server on this user's data; a private one is started if none runs."""

    async def find(self) -> Place:
        from holdfast.cli.background_server import found_or_started

        server = await found_or_started(dict(os.environ), local=True)
        return launching.Place(server.url, server.socket)

    def connect(self, place: Place) -> AsyncTransport:
        from holdfast.client.http import HttpTransport

        password = credential.given_password(os.environ) or credential.kept_password(os.environ)
        auth = (credential.username(os.environ), password) if password else None
        return HttpTransport(place.url, auth=auth, socket=place.socket)


class UserTrust:
    """This user's decisions about settings of projects."""

    def undecided(self, sources: tuple[ConfigSource, ...]) -> tuple[ConfigSource, ...]:
        from holdfast.embedded.trust import ProjectTrust

        return ProjectTrust().undecided(sources)

    def decide(self, sources: tuple[ConfigSource, ...], *, trusted: bool) -> None:
        from holdfast.embedded.trust import ProjectTrust

        trust = ProjectTrust()
        (trust.grant if trusted else trust.decline)(sources)
