"""`holdfast auth`: keys of providers. A key is read without echo or from standard input, and never shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from holdfast.schema.catalog import Connection, IntegrationInfo


KEY_BYTES = 64 * 1024


@click.group("auth")
def command() -> None:
    """Connect to providers."""


@command.command()
@click.argument("provider")
@click.option("--label", metavar="TEXT", help="A name for the key, to tell it from others.")
def login(provider: str, label: str | None) -> None:
    """Store a key of PROVIDER, in place of an earlier one.

    The key is asked for without echo, or read from standard input when that is no terminal."""
    from holdfast.cli.command_runner import execute, fail

    # Asked for outside the loop: there, Ctrl-C could not end the question.
    if code := execute(_takes_a_key(provider)):
        sys.exit(code)
    key = _read_key(provider)
    if not key:
        sys.exit(fail("no key was given; nothing was changed"))
    sys.exit(execute(_store(provider, key, label)))


@command.command("list")
@click.option("--all", "unconnected_too", is_flag=True, help="Also what is not connected.")
@json_option
def list_connections(unconnected_too: bool, as_json: bool) -> None:
    """List what is connected, and whether by a stored key or by the environment."""
    from holdfast.cli.command_runner import execute

    sys.exit(execute(_list(unconnected_too, as_json)))


@command.command()
@click.argument("provider")
def logout(provider: str) -> None:
    """Forget the stored key of PROVIDER."""
    from holdfast.cli.command_runner import execute

    sys.exit(execute(_logout(provider)))


def _read_key(provider: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"Key of {provider}", hide_input=True, err=True)).strip()
    try:
        return sys.stdin.buffer.readline(KEY_BYTES).decode().strip()
    except UnicodeDecodeError:
        raise click.UsageError("what standard input gives is no key: it is not valid UTF-8") from None


async def _takes_a_key(provider: str) -> int:
    from holdfast.cli.command_runner import fail
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.catalog import KeyMethod

    async with Holdfast(recover=False) as hf:
        known = (await hf.integrations.list()).data
    found = next((integration for integration in known if integration.id == provider), None)
    if found is None:
        return fail(f"no provider is called {provider}; `holdfast auth list --all` names them")
    if not any(isinstance(method, KeyMethod) for method in found.methods):
        return fail(f"{provider} takes no key")
    return 0


async def _store(provider: str, key: str, label: str | None) -> int:
    from holdfast.embedded.holdfast import Holdfast

    async with Holdfast(recover=False) as hf:
        await hf.integrations.connect_key(provider, key=key, label=label)
    click.echo(f"stored a key of {provider}", err=True)
    return 0


async def _list(unconnected_too: bool, as_json: bool) -> int:
    from holdfast.embedded.holdfast import Holdfast

    async with Holdfast(recover=False) as hf:
        known = (await hf.integrations.list()).data
    shown = [integration for integration in known if integration.connections or unconnected_too]
    if as_json:
        print_json(shown)
    elif shown:
        rows = ((found.id, found.name, ", ".join(map(_described, found.connections))) for found in shown)
        print_table(("PROVIDER", "NAME", "CONNECTED BY"), rows)
    else:
        click.echo("nothing is connected; `holdfast auth list --all` names what could be", err=True)
    return 0


async def _logout(provider: str) -> int:
    from holdfast.cli.command_runner import fail
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.catalog import CredentialConnection, EnvConnection

    async with Holdfast(recover=False) as hf:
        found: IntegrationInfo | None = (await hf.integrations.get(provider)).data
        connections = found.connections if found else ()
        stored = [one for one in connections if isinstance(one, CredentialConnection)]
        for credential in stored:
            await hf.credentials.remove(credential.id)
    if not stored:
        return fail(f"no key of {provider} is stored")
    click.echo(f"forgot the key of {provider}", err=True)
    for variable in connections:
        if isinstance(variable, EnvConnection):
            click.echo(f"{provider} is still connected by the variable {variable.name}", err=True)
    return 0


def _described(connection: Connection) -> str:
    from holdfast.schema.catalog import CredentialConnection

    if isinstance(connection, CredentialConnection):
        return f"stored key ({connection.label})"
    return f"variable {connection.name}"
