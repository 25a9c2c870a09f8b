"""The sign-in that a call waits for, in the terminal of `holdfast run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.output import brief, visible
from holdfast.client.errors import ApiError
from holdfast.schema.catalog import OAuthMethod

if TYPE_CHECKING:
    from holdfast.cli.terminal import Terminal
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.form import Form

KIND = "mcp-authorization"


def is_sign_in(form: Form) -> bool:
    return (form.metadata or {}).get("kind") == KIND


async def sign_in(terminal: Terminal, client: AsyncClient, form: Form) -> None:
    """Begin the sign-in and show its address. Returns when the person gives up; the arrival of the credential answers
    the form, and whoever waits for that ends this."""
    about = form.metadata or {}
    id, server = str(about.get("integrationID")), brief(about.get("server"))
    session = await client.sessions.get(form.session_id)
    place = session.location
    known = (await client.integrations.get(id, location=place)).data
    method = next((found for found in known.methods if isinstance(found, OAuthMethod)), None) if known else None
    terminal.discard_typed()
    terminal.say(f"? the MCP server {server} needs a sign-in")
    if method is None:
        terminal.say(f"  There is no way to sign in to it here. `holdfast auth login mcp:{server}` may help.")
    else:
        begun = await client.integrations.connect_oauth(id, method_id=method.id, inputs={}, location=place)
        terminal.say(f"  Sign in at this address:\n\n{visible(begun.data.url)}\n")
        _open(begun.data.url)
    while True:
        line = await terminal.ask("  waiting for the browser; paste the address it was sent to, or Ctrl-D to give up:")
        if line is None:
            terminal.say()
            return
        if line and method is not None:
            try:
                await client.integrations.attempt_complete(begun.data.attempt_id, code=line, location=place)
            except ApiError as error:
                terminal.say(f"  {error}")


def _open(url: str) -> None:
    import click

    from holdfast.cli.sign_in import has_browser

    if has_browser():
        click.launch(url)
