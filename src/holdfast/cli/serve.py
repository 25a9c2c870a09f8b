"""`holdfast serve`: the HTTP API on a port."""

from __future__ import annotations

import click

from holdfast.cli.failure import execute
from holdfast.embedded.serve import Served, fast_loop, serve


def run_server(hostname: str, port: int | None, *, no_auth: bool) -> int:
    return execute(_serve(hostname, port, no_auth), loop_factory=fast_loop(), own_signals=False)


async def _serve(hostname: str, port: int | None, no_auth: bool) -> int:
    def ready(served: Served) -> None:
        if served.credential is not None:
            click.echo(f"user opencode, password in {served.credential}", err=True)
        elif no_auth:
            click.echo("no password is asked for: whoever reaches this port may use it", err=True)
        click.echo(f"holdfast listening on {served.url}")

    return await serve(hostname, port, authorize=not no_auth, ready=ready)
