"""`holdfast auth`: stores keys of providers. A key is read without echo or from standard input, and never printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import execute, fail, on_host, run_on_host
from holdfast.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.catalog import Connection

KEY_BYTES = 64 * 1024


@click.group("auth")
def command() -> None:
    """Connect to providers."""


@command.command()
@click.argument("provider")
@click.option("--label", metavar="TEXT", help="A name for the key.")
def login(provider: str, label: str | None) -> None:
    """Store a key of PROVIDER. It replaces an earlier one.

    The key is asked for without echo, or read from standard input if that is not a terminal."""
    if code := execute(on_host(lambda host: _check_takes_key(host, provider))):
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
    """Remove the stored key of PROVIDER."""
    run_on_host(lambda host: _logout(host, provider))


def _read_key(provider: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"Key of {provider}", hide_input=True, err=True)).strip()
    try:
        return sys.stdin.buffer.readline(KEY_BYTES).decode().strip()
    except UnicodeDecodeError:
        raise click.UsageError("the key on standard input is not valid UTF-8") from None


async def _check_takes_key(host: Holdfast, provider: str) -> int:
    from holdfast.schema.catalog import KeyMethod

    known = (await host.integrations.list()).data
    found = next((integration for integration in known if integration.id == provider), None)
    if found is None:
        return fail(f"No provider {provider}. `holdfast auth list --all` lists the providers.")
    if not any(isinstance(method, KeyMethod) for method in found.methods):
        return fail(f"{provider} is not connected by a key.")
    return 0


async def _store(host: Holdfast, provider: str, key: str, label: str | None) -> int:
    await host.integrations.connect_key(provider, key=key, label=label)
    click.echo(f"stored the key of {provider}", err=True)
    return 0


async def _list(host: Holdfast, unconnected_too: bool, as_json: bool) -> int:
    known = (await host.integrations.list()).data
    shown = [integration for integration in known if integration.connections or unconnected_too]
    if as_json:
        print_json(shown)
    elif shown:
        rows = ((found.id, found.name, ", ".join(map(_described, found.connections))) for found in shown)
        print_table(("PROVIDER", "NAME", "CONNECTED BY"), rows)
    else:
        click.echo("no provider is connected; `holdfast auth list --all` lists the providers", err=True)
    return 0


async def _logout(host: Holdfast, provider: str) -> int:
    from holdfast.schema.catalog import CredentialConnection, EnvConnection

    found = (await host.integrations.get(provider)).data
    connections = found.connections if found else ()
    stored = [one for one in connections if isinstance(one, CredentialConnection)]
    for credential in stored:
        await host.credentials.remove(credential.id)
    if not stored:
        return fail(f"No key of {provider} is stored. `holdfast auth list` lists the stored keys.")
    click.echo(f"removed the key of {provider}", err=True)
    for variable in connections:
        if isinstance(variable, EnvConnection):
            click.echo(f"{provider} is still connected by the environment variable {variable.name}", err=True)
    return 0


def _described(connection: Connection) -> str:
    from holdfast.schema.catalog import CredentialConnection

    if isinstance(connection, CredentialConnection):
        return f"stored key ({connection.label})"
    return f"variable {connection.name}"
