"""`holdfast serve`: serves the HTTP API on a port."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal

import click

from holdfast.cli.command_runner import execute, started
from holdfast.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.embedded.serve import Served, Serving
    from holdfast.schema.configuration import ConfigReport


EXIT_SECONDS = 4.5


@click.command("serve")
@click.option(
    "--local",
    is_flag=True,
    help="Listen on no port: only your own programs on this machine reach it. Ends when nobody uses it.",
)
@click.option(
    "--idle",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="With --local: end when for so long nobody was connected and no Session was executed.",
)
@click.option("--hostname", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=int, help="The port; 0 takes any free port.  [default: the first free port from 4096]")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A further host name of this server, such as that of a proxy. Can be repeated.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Let pages of this origin, as in https://agent.example, send requests. Can be repeated.",
)
@click.option("--no-auth", is_flag=True, help="Ask for no password: every process on this machine has full access.")
@click.option("--trust", is_flag=True, help="Trust the configuration of every project that is opened.")
@click.option("--no-recovery", is_flag=True, help="Do not continue work that an earlier process left unfinished.")
@click.option(
    "--drain",
    type=click.FloatRange(0),
    default=0.0,
    metavar="SECONDS",
    help="At SIGTERM, let turns end for so long and hand Sessions over to other servers; by default they are stopped.",
)
@click.option(
    "--most-sessions",
    "most",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="How many Sessions are executed at once; others wait, or go to a server with room.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="[LABEL=]DIRECTORY",
    help="Execute only Sessions below this directory; with a label, only those of that volume. Can be repeated.",
)
@click.option("--node-name", metavar="NAME", help="How this server is called among those on the database.")
@click.option("--node-address", metavar="URL", help="Where other servers on the database reach this one.")
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
    help="Set this variable in terminals; without a value, to that of this process. Can be repeated.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Which log lines are written to standard error.  [default: warning]",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Their form.  [default: text]")
@click.pass_context
def command(
    context: click.Context,
    local: bool,
    idle: float,
    hostname: str,
    port: int | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    no_auth: bool,
    trust: bool,
    no_recovery: bool,
    drain: float,
    most: int | None,
    roots: tuple[str, ...],
    node_name: str | None,
    node_address: str | None,
    sandbox: Literal["off", "read-only", "workspace"] | None,
    variables: tuple[str, ...],
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Serve the HTTP API until interrupted.

    Unless --no-auth is given, clients need a password: OPENCODE_SERVER_PASSWORD, or a new one for every start, which is
    stored in a file that only you can read. While the server runs, `holdfast run` on the same data uses it.

    SIGHUP reads the configuration of all open projects again. Edited files are also read again before each turn.

    Requests for another host name are refused, and so are changes by pages of other origins."""
    from holdfast.embedded.serve import (
        HOST_EXPECTED,
        ORIGIN_EXPECTED,
        Serving,
        fast_loop,
        is_host_name,
        is_loopback,
        is_node_address,
        is_origin,
        usable_roots,
    )

    if local:
        _check_local(context)
    elif context.get_parameter_source("idle") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--idle needs --local: a server with a port ends only when it is told to")
    for name in hosts:
        if not is_host_name(name):
            raise click.BadParameter(f"{name!r} is not a host name; {HOST_EXPECTED}", param_hint="--allow-host")
    for origin in origins:
        if not is_origin(origin):
            raise click.BadParameter(f"{origin!r} is not an origin; {ORIGIN_EXPECTED}", param_hint="--allow-origin")
    if node_address is not None and not is_node_address(node_address):
        raise click.BadParameter(
            f"{node_address!r} is not an address; expected scheme, host and port, as in http://10.0.0.5:4096",
            param_hint="--node-address",
        )
    try:
        served = usable_roots(roots, relative=True)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--root") from None
    if no_auth and not is_loopback(hostname):
        raise click.UsageError(
            f"--no-auth works only on loopback addresses, not on {hostname}: everyone who can reach the port could run "
            "commands as you. Leave out --no-auth or --hostname."
        )
    asked = Serving(
        local=local,
        idle=idle,
        hostname=hostname,
        port=port,
        authorize=not no_auth,
        hosts=hosts,
        origins=origins,
        trust=trust,
        sandbox=sandbox,
        recover=not no_recovery,
        drain=drain,
        most=most,
        roots=served or None,
        name=node_name,
        address=node_address.rstrip("/") if node_address is not None else None,
        pty_environment=_variables(variables),
    )
    work = _serve(asked, log_level, log_format)
    sys.exit(execute(work, loop_factory=fast_loop(), own_signals=False, warnings=True))


def _check_local(context: click.Context) -> None:
    """Refuse options that need a port."""
    for name in ("hostname", "port", "hosts", "origins", "no_auth", "node_address"):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = {"hosts": "allow-host", "origins": "allow-origin"}.get(name, name.replace("_", "-"))
            raise click.UsageError(f"--{option} needs a port; leave it or --local out")


async def _serve(asked: Serving, log_level: str | None, log_format: str | None) -> int:
    from holdfast.embedded.log_output import set_up_logs
    from holdfast.embedded.serve import serve

    say = set_up_logs(level=log_level, format=log_format)

    def ready(served: Served) -> None:
        if asked.local:
            click.echo("holdfast listening on its private socket only")
            started()
            return
        if served.credential is not None:
            say(f"user opencode, password in {served.credential}")
        elif not asked.authorize:
            say("no password: every process on this machine has full access")
        click.echo(f"holdfast listening on {served.url}")
        click.echo(f"page: {served.page}")
        started()

    def show_problems(report: ConfigReport) -> None:
        from holdfast.cli.config import summary

        if (line := summary(report.problems)) is not None:
            say(line)

    def show_reload(failed: Sequence[str]) -> None:
        for line in failed:
            say(printable(f"configuration not reloaded, the former one stays in effect: {line}"))
        if not failed:
            say("configuration reloaded")

    return await serve(asked, ready=ready, ending=_end_in_time, reported=show_problems, reloaded=show_reload)


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals and name in os.environ:
            value = os.environ[name]
        elif not name or not equals:
            raise click.BadParameter(
                f"{text!r} is neither NAME=VALUE nor the name of an environment variable", param_hint="--pty-env"
            )
        found[name] = value
    return found


def _end_in_time() -> None:
    """End the process `EXIT_SECONDS` after a signal, even if something does not close. Nothing is lost: what was
    acknowledged is stored, and the next process finds unfinished work as after a crash."""
    import threading

    timer = threading.Timer(EXIT_SECONDS, _give_up)
    timer.daemon = True
    timer.start()


def _give_up() -> None:
    os.write(2, b"holdfast: not everything closed in time; the next server continues unfinished work\n")
    os._exit(1)
