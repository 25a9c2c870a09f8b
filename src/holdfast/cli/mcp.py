"""`holdfast mcp`: MCP servers, and Holdfast as one."""

from __future__ import annotations

import click

from holdfast.cli.mcp_serve import serve


@click.group("mcp", short_help="Offer sessions to other agents.")
def command() -> None:
    """Offer sessions to other agents over the Model Context Protocol."""


command.add_command(serve)
