"""`holdfast acp`: sessions for an editor, by the Agent Client Protocol on standard input and output."""

from __future__ import annotations

import os
import sys

import click

from holdfast.cli.command_runner import execute, fail, started

FRAME_BYTES = 64 * 1024 * 1024
"""Of one message: a prompt with several images."""


@click.command("acp", short_help="Offer sessions to an editor by the Agent Client Protocol.")
@click.option("--login", is_flag=True, help="Connect a provider in this terminal, and end. Editors offer this.")
@click.pass_context
def command(context: click.Context, login: bool) -> None:
    """Offer sessions to an editor by the Agent Client Protocol, on standard input and output.

    The editor starts this command. Sessions are those of this machine, which every other client sees too; no port is
    opened. Ends when standard input ends: open requests stay open, and what sessions were doing goes on when they are
    opened again. See docs/how-to/editors.md."""
    if login:
        from holdfast.cli.auth import login as connect

        provider = click.prompt(
            "Provider, such as anthropic or openai (`holdfast auth list --all` lists them)", err=True
        )
        context.invoke(connect, provider=provider.strip(), label=None, paste=False)
        return
    sys.exit(execute(_serve(os.getcwd()), warnings=True))


async def _serve(directory: str) -> int:
    from holdfast.acp.peer import AcpPeer
    from holdfast.acp.runtime_access import RuntimeAccess
    from holdfast.mcp.errors import ProtocolError
    from holdfast.mcp.own_pipes import OwnPipes
    from holdfast.mcp.stdio import StdioTransport

    access = RuntimeAccess(directory, started)
    try:
        pipes = await OwnPipes.open("An editor")
        ended = await AcpPeer(StdioTransport(pipes, frame_limit=FRAME_BYTES), access).serve()
    finally:
        await access.close()
    return fail(f"The client was given up: {ended}") if isinstance(ended, ProtocolError) else 0
