"""`holdfast serve`: the HTTP API on a port."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from holdfast.embedded.serve import Served


@click.command("serve")
@click.option("--hostname", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=int, help="The port; 0 takes any free one.  [default: the first free one from 4096]")
@click.option("--no-auth", is_flag=True, help="Ask for no password. Anyone who reaches the port may do anything.")
@click.option("--no-recovery", is_flag=True, help="Leave what an earlier process did not finish as it is.")
@click.option(
    "--sandbox",
    type=click.Choice(["off", "read-only", "workspace"]),
    help="How commands are confined; see docs/sandbox.md.",
)
def command(hostname: str, port: int | None, no_auth: bool, no_recovery: bool, sandbox: str | None) -> None:
    """Serve the HTTP API until interrupted.

    Unless --no-auth is given, callers need a password: OPENCODE_SERVER_PASSWORD, or one that is generated and kept in
    a file only you can read. While it runs, `holdfast run` on the same data goes through it."""
    from holdfast.cli.failure import execute
    from holdfast.embedded.serve import fast_loop

    if sandbox is not None:
        os.environ["HOLDFAST_SANDBOX"] = sandbox
    work = _serve(hostname, port, authorize=not no_auth, recover=not no_recovery)
    sys.exit(execute(work, loop_factory=fast_loop(), own_signals=False))


async def _serve(hostname: str, port: int | None, *, authorize: bool, recover: bool) -> int:
    from holdfast.embedded.serve import serve

    def ready(served: Served) -> None:
        if served.credential is not None:
            click.echo(f"user opencode, password in {served.credential}", err=True)
        elif not authorize:
            click.echo("no password is asked for: whoever reaches this port may use it", err=True)
        for session_id in served.interrupted:
            decide = f"`holdfast sessions recover {session_id} --continue`, or --abandon, decides"
            click.echo(f"{session_id} broke off in mid-turn; {decide}", err=True)
        click.echo(f"holdfast listening on {served.url}")

    return await serve(hostname, port, authorize=authorize, recover=recover, ready=ready)
