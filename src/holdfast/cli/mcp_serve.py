"""`holdfast mcp serve`: offers sessions as MCP tools on standard input and output."""

from __future__ import annotations

import os
import sys

import click

from holdfast.cli.command_runner import execute, fail, started


@click.command("serve", short_help="Offer sessions as MCP tools on standard input and output.")
@click.option("--dir", "directory", type=click.Path(exists=True, file_okay=False), help="The project directory.")
@click.option("--attach", metavar="URL", help="Use the server at this address.")
@click.option("--standalone", is_flag=True, help="Use no server, even if one runs on the same data.")
def serve(directory: str | None, attach: str | None, standalone: bool) -> None:
    """Offer sessions to another agent as MCP tools, on standard input and output.

    The tools create sessions, send prompts, wait, read, answer requests and interrupt. Sessions live in the server that
    runs on the same data, and otherwise in this process. Ends when standard input ends; what sessions were doing in
    this process then goes on in the next one. See docs/how-to/mcp-serve.md."""
    if attach is not None and standalone:
        raise click.UsageError("--attach cannot be combined with --standalone")
    sys.exit(execute(_serve(os.path.realpath(directory or os.getcwd()), attach, standalone), warnings=True))


async def _serve(directory: str, attach: str | None, standalone: bool) -> int:
    from holdfast.cli.session_tools.runtime_access import RuntimeAccess
    from holdfast.cli.session_tools.toolbox import INSTRUCTIONS, SessionToolbox
    from holdfast.mcp.capabilities import Implementation
    from holdfast.mcp.errors import ProtocolError
    from holdfast.mcp.own_pipes import OwnPipes
    from holdfast.mcp.server import Server
    from holdfast.mcp.stdio import StdioTransport
    from holdfast.schema.version import __version__

    access = RuntimeAccess(directory, attach=attach, standalone=standalone)
    toolbox = SessionToolbox(access, directory, same_machine=attach is None)
    server = Server(Implementation(name="holdfast", version=__version__), toolbox, instructions=INSTRUCTIONS)
    try:
        pipes = await OwnPipes.open()
        started()
        ended = await server.serve(StdioTransport(pipes))
    finally:
        await access.close()
    return fail(f"The client was given up: {ended}") if isinstance(ended, ProtocolError) else 0
