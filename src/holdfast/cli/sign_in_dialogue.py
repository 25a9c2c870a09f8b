"""The sign-in that a call waits for, in the terminal of `holdfast run`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.cli.output import brief, visible
from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.catalog import OAuthMethod

if TYPE_CHECKING:
    from holdfast.cli.terminal import Terminal
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.catalog import Attempt
    from holdfast.schema.form import Form
    from holdfast.schema.location import Location

KIND = "mcp-authorization"
POLL_SECONDS = 0.25
WAITING = "  waiting for the browser; paste the address it was sent to, or Ctrl-D to give up:"
AGAIN = "  Enter begins another sign-in, Ctrl-D gives up:"


def is_sign_in(form: Form) -> bool:
    return (form.metadata or {}).get("kind") == KIND


async def sign_in(terminal: Terminal, client: AsyncClient, form: Form) -> None:
    """Begin the sign-in and show its address; if it fails, say why and begin another one. Returns when the person gives
    up; the arrival of the credential answers the form, and whoever waits for that ends this."""
    about = form.metadata or {}
    id, server = str(about.get("integrationID")), brief(about.get("server"))
    place = (await client.sessions.get(form.session_id)).location
    known = (await client.integrations.get(id, location=place)).data
    method = next((found for found in known.methods if isinstance(found, OAuthMethod)), None) if known else None
    terminal.discard_typed()
    terminal.say(f"? the MCP server {server} needs a sign-in")
    if method is None:
        terminal.say(f"  There is no way to sign in to it here. `holdfast auth login mcp:{server}` may help.")
        while await terminal.ask("  waiting for the sign-in; Ctrl-D gives up:") is not None:
            pass
        terminal.say()
        return
    dialogue = _Dialogue(terminal, client, place)
    while True:
        try:
            begun = await client.integrations.connect_oauth(id, method_id=method.id, inputs={}, location=place)
        except (ApiError, ClientError) as error:
            terminal.say(f"  {error}")
        else:
            if await dialogue.gives_up(begun.data):
                return
        if await terminal.ask(AGAIN) is None:
            terminal.say()
            return


class _Dialogue:
    def __init__(self, terminal: Terminal, client: AsyncClient, place: Location) -> None:
        self._terminal = terminal
        self._client = client
        self._place = place

    async def gives_up(self, attempt: Attempt) -> bool:
        """Whether the person gives up. Otherwise the sign-in has failed, and the person was told why."""
        self._terminal.say(f"  Sign in at this address:\n\n{visible(attempt.url)}\n")
        _open(attempt.url)
        failing = asyncio.ensure_future(self._failure(attempt))
        try:
            while True:
                asking = asyncio.ensure_future(self._terminal.ask(WAITING))
                try:
                    await asyncio.wait({asking, failing}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not asking.done():
                        asking.cancel()
                        await asyncio.wait({asking})
                if asking.cancelled():
                    self._terminal.say(f"  {failing.result()}")
                    return False
                line = asking.result()
                if line is None:
                    self._terminal.say()
                    await self._client.integrations.attempt_cancel(attempt.attempt_id, location=self._place)
                    return True
                if line:
                    await self._complete(attempt, line)
        finally:
            failing.cancel()
            await asyncio.wait({failing})

    async def _complete(self, attempt: Attempt, line: str) -> None:
        try:
            await self._client.integrations.attempt_complete(attempt.attempt_id, code=line, location=self._place)
        except ApiError as error:
            self._terminal.say(f"  {error}")

    async def _failure(self, attempt: Attempt) -> str:
        """Waits until the sign-in has failed. One that succeeds does not end this: it answers the form."""
        while True:
            try:
                found = (await self._client.integrations.attempt_status(attempt.attempt_id, location=self._place)).data
            except (ApiError, ClientError) as error:
                return str(error)
            if found.status not in ("pending", "complete"):
                return found.message or f"the sign-in has {found.status}"
            await asyncio.sleep(POLL_SECONDS)


def _open(url: str) -> None:
    import click

    from holdfast.cli.sign_in import has_browser

    if has_browser():
        click.launch(url)
