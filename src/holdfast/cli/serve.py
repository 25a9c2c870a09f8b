"""`holdfast serve`: the HTTP API on a port."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Literal

import click

from holdfast.cli.output import printable
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.embedded.serve import Served, Serving
    from holdfast.schema.configuration import ConfigReport


EXIT_SECONDS = 4.5


@click.command("serve")
@click.option("--hostname", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=int, help="The port; 0 takes any free one.  [default: the first free one from 4096]")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Answer under this host name too, such as that of a proxy. Can be repeated.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Let pages of this origin, as in https://agent.example, change something. Can be repeated.",
)
@click.option("--no-auth", is_flag=True, help="Ask for no password. Every process on this machine may do anything.")
@click.option("--trust", is_flag=True, help="Trust the configuration of every project that is opened.")
@click.option("--no-recovery", is_flag=True, help="Leave what an earlier process did not finish as it is.")
@click.option(
    "--sandbox",
    type=click.Choice(["off", "read-only", "workspace"]),
    help="How commands are confined; see docs/how-to/sandbox.md.",
)
@click.option(
    "--pty-env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Give terminals this variable; without a value, the one of this process. Can be repeated.",
)
def command(
    hostname: str,
    port: int | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    no_auth: bool,
    trust: bool,
    no_recovery: bool,
    sandbox: Literal["off", "read-only", "workspace"] | None,
    variables: tuple[str, ...],
) -> None:
    """Serve the HTTP API until interrupted.

    Unless --no-auth is given, callers need a password: OPENCODE_SERVER_PASSWORD, or a new one for every start, which is
    kept in a file only you can read. While it runs, `holdfast run` on the same data goes through it.

    SIGHUP has it read the configuration of all open projects again. Edits are noticed before each turn anyway.

    Requests to a host name that is not the server's are refused, and so are changes by pages of other origins."""
    from holdfast.cli.command_runner import execute
    from holdfast.embedded.serve import Serving, fast_loop, host_name, is_loopback

    for name in hosts:
        try:
            host_name(name)
        except ValueError:
            raise click.BadParameter(
                f"{name!r} is no host name; expected one as in agent.example, without scheme and port",
                param_hint="--allow-host",
            ) from None
    for origin in origins:
        if _ORIGIN.fullmatch(origin) is None:
            raise click.BadParameter(
                f"{origin!r} is no origin; expected scheme, host and port alone, as in https://agent.example",
                param_hint="--allow-origin",
            )
    if no_auth and not is_loopback(hostname):
        raise click.UsageError(
            f"--no-auth listens on loopback addresses only, not on {hostname}: whoever reached the port could run "
            "commands as you. Leave --no-auth out, or --hostname."
        )
    asked = Serving(
        hostname=hostname,
        port=port,
        authorize=not no_auth,
        hosts=hosts,
        origins=origins,
        trust=trust,
        sandbox=sandbox,
        recover=not no_recovery,
        pty_environment=_variables(variables),
    )
    sys.exit(execute(_serve(asked), loop_factory=fast_loop(), own_signals=False, warnings=True))


async def _serve(asked: Serving) -> int:
    from holdfast.embedded.serve import serve

    def ready(served: Served) -> None:
        if served.credential is not None:
            click.echo(f"user opencode, password in {served.credential}", err=True)
        elif not asked.authorize:
            click.echo("no password is asked for: every process on this machine may use it", err=True)
        click.echo(f"holdfast listening on {served.url}")

    return await serve(asked, ready=ready, ending=_end_in_time, reported=_show_problems, reloaded=_show_reload)


def _show_problems(report: ConfigReport) -> None:
    from holdfast.cli.config import summary

    if (line := summary(report.problems)) is not None:
        click.echo(line, err=True)


def _show_reload(failed: Sequence[str]) -> None:
    for line in failed:
        click.echo(printable(f"configuration not taken over, the former one stays in force: {line}"), err=True)
    if not failed:
        click.echo("configuration read again", err=True)


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals and name in os.environ:
            value = os.environ[name]
        elif not name or not equals:
            raise click.BadParameter(
                f"{text!r} is neither NAME=VALUE nor a variable of this process", param_hint="--pty-env"
            )
        found[name] = value
    return found


def _end_in_time() -> None:
    """After a signal the process ends within `EXIT_SECONDS`, even if something does not close. That loses nothing: what
    was promised is stored, and what was not finished is found by the next process, as after a crash."""
    import threading

    timer = threading.Timer(EXIT_SECONDS, _give_up)
    timer.daemon = True
    timer.start()


def _give_up() -> None:
    os.write(2, b"holdfast: not everything closed in time; the next start takes care of what was left\n")
    os._exit(1)


_ORIGIN = pattern(r"[a-z][a-z0-9+.-]*://[^/?#@\s*,]+", re.IGNORECASE)
