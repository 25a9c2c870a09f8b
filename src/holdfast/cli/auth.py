"""`holdfast auth`: stores keys of providers, and signs in with a browser. A key is read without echo or from standard
input, and never printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import execute, fail, on_host, run_on_host
from holdfast.cli.help import HelpfulGroup
from holdfast.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.catalog import Connection, IntegrationInfo

KEY_BYTES = 64 * 1024


@click.group("auth", cls=HelpfulGroup)
def command() -> None:
    """Connect to providers and MCP servers."""


@command.command()
@click.argument("provider")
@click.option("--label", metavar="TEXT", help="A name for the key or the sign-in.")
@click.option("--paste", is_flag=True, help="The browser is elsewhere: paste the address that it was sent to.")
def login(provider: str, label: str | None, paste: bool) -> None:
    """Store a key of PROVIDER, or sign in to it with a browser. This replaces an earlier key or sign-in.

    A remote MCP server is mcp:NAME. A key is asked for without echo, or read from standard input if that is not a
    terminal."""
    keyed: list[IntegrationInfo] = []
    code = execute(on_host(lambda host: _sign_in(host, provider, label, paste, keyed)))
    if not keyed:
        sys.exit(code)
    key = _read_key(provider)  # outside the loop, where Ctrl-C ends the prompt
    if not key:
        sys.exit(fail(f"No key was given. The stored keys of {provider} are unchanged."))
    run_on_host(lambda host: _store(host, provider, key, label))


@command.command("list")
@click.option("--all", "unconnected_too", is_flag=True, help="Also list providers that are not connected.")
@json_option
def list_connections(unconnected_too: bool, as_json: bool) -> None:
    """List connected providers, and whether a stored key or the environment connects them."""
    run_on_host(lambda host: _list(host, unconnected_too, as_json))


@command.command()
@click.argument("provider")
def logout(provider: str) -> None:
    """Remove the stored key of PROVIDER, or its sign-in. A remote MCP server is mcp:NAME."""
    run_on_host(lambda host: _logout(host, provider))


def _read_key(provider: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"Key of {provider}", hide_input=True, err=True)).strip()
    try:
        return sys.stdin.buffer.readline(KEY_BYTES).decode().strip()
    except UnicodeDecodeError:
        raise click.UsageError("the key on standard input is not valid UTF-8") from None


async def _sign_in(host: Holdfast, provider: str, label: str | None, paste: bool, keyed: list[IntegrationInfo]) -> int:
    """With a browser. A provider that takes a key is added to `keyed` instead."""
    from holdfast.cli.sign_in import find_integration, sign_in
    from holdfast.schema.catalog import OAuthMethod

    found = find_integration((await host.integrations.list()).data, provider)
    if found is None:
        return fail(f"No provider {provider}. `holdfast auth list --all` lists the providers.")
    if _takes_key(found):
        keyed.append(found)
        return 0
    method = next((method for method in found.methods if isinstance(method, OAuthMethod)), None)
    if method is None:
        return fail(f"{provider} is connected neither by a key nor with a browser.")
    return await sign_in(host, found, method, label=label, paste=paste)


async def _store(host: Holdfast, provider: str, key: str, label: str | None) -> int:
    await host.integrations.connect_key(provider, key=key, label=label)
    click.echo(f"stored the key of {provider}", err=True)
    return 0


async def _list(host: Holdfast, unconnected_too: bool, as_json: bool) -> int:
    from holdfast.cli.sign_in import shown_id

    known = (await host.integrations.list()).data
    shown = [integration for integration in known if integration.connections or unconnected_too]
    if as_json:
        print_json(shown)
    elif shown:
        rows = ((shown_id(found), found.name, _connections(found)) for found in shown)
        print_table(("PROVIDER", "NAME", "CONNECTED BY"), rows)
    else:
        click.echo("no provider is connected; `holdfast auth list --all` lists the providers", err=True)
    return 0


async def _logout(host: Holdfast, provider: str) -> int:
    from holdfast.cli.sign_in import find_integration
    from holdfast.schema.catalog import CredentialConnection, EnvConnection

    found = find_integration((await host.integrations.list()).data, provider)
    connections = found.connections if found else ()
    stored = [one for one in connections if isinstance(one, CredentialConnection)]
    for credential in stored:
        await host.credentials.remove(credential.id)
    if not stored:
        return fail(f"No key of {provider} is stored. `holdfast auth list` lists what is stored.")
    click.echo(f"removed the {'key' if found is None or _takes_key(found) else 'sign-in'} of {provider}", err=True)
    for variable in connections:
        if isinstance(variable, EnvConnection):
            click.echo(f"{provider} is still connected by the environment variable {variable.name}", err=True)
    return 0


def _connections(integration: IntegrationInfo) -> str:
    stored = "stored key" if _takes_key(integration) else "signed in"
    return ", ".join(_described(connection, stored) for connection in integration.connections)


def _described(connection: Connection, stored: str) -> str:
    from holdfast.schema.catalog import CredentialConnection

    if isinstance(connection, CredentialConnection):
        return f"{stored} ({connection.label})"
    return f"variable {connection.name}"


def _takes_key(integration: IntegrationInfo) -> bool:
    from holdfast.schema.catalog import KeyMethod

    return any(isinstance(method, KeyMethod) for method in integration.methods)
