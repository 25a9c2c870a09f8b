"""`holdfast auth login` with a browser: shows the address, and waits for the browser or for a pasted address."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import fail
from holdfast.cli.output import printable
from holdfast.cli.terminal import LINE_BYTES, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.catalog import Attempt, IntegrationInfo, OAuthMethod

POLL_SECONDS = 0.25
SERVER_IDS = "mcp_"
"""How the ids of MCP servers' integrations begin. They are digests, so the commands call them `mcp:NAME`."""


def shown_id(integration: IntegrationInfo) -> str:
    return f"mcp:{integration.name}" if integration.id.startswith(SERVER_IDS) else integration.id


def find_integration(known: Iterable[IntegrationInfo], id: str) -> IntegrationInfo | None:
    return next((integration for integration in known if id in (integration.id, shown_id(integration))), None)


async def sign_in(
    host: Holdfast, integration: IntegrationInfo, method: OAuthMethod, *, label: str | None, paste: bool
) -> int:
    begun = await host.integrations.connect_oauth(integration.id, method_id=method.id, inputs={}, label=label)
    attempt, name = begun.data, shown_id(integration)
    try:
        click.echo(f"Sign in to {name} at this address:\n\n{printable(attempt.url)}\n", err=True)
        if paste or attempt.mode == "code":
            problem = await _complete(host, attempt)
        else:
            if has_browser():
                click.launch(attempt.url)
            click.echo("waiting for the browser; Ctrl-C cancels", err=True)
            problem = await _wait(host, attempt)
    finally:
        await host.integrations.attempt_cancel(attempt.attempt_id)
    if problem is not None:
        return fail(f"{name}: {problem}")
    click.echo(f"signed in to {name}", err=True)
    return 0


async def _complete(host: Holdfast, attempt: Attempt) -> str | None:
    """Why the sign-in failed; None if it did not."""
    pasted = await _pasted("Afterwards paste the address that the browser was sent to, or the code that it shows:")
    if not pasted:
        return "nothing was pasted; the sign-in was cancelled"
    await host.integrations.attempt_complete(attempt.attempt_id, code=pasted)
    return None


async def _pasted(prompt: str) -> str | None:
    try:
        return await Terminal().ask(prompt)
    except (io.UnsupportedOperation, PermissionError):  # a file, which the loop cannot wait for
        return sys.stdin.buffer.readline(LINE_BYTES).decode("utf-8", "replace").strip()


async def _wait(host: Holdfast, attempt: Attempt) -> str | None:
    """Why the sign-in failed; None if it did not."""
    while True:
        found = (await host.integrations.attempt_status(attempt.attempt_id)).data
        if found.status == "complete":
            return None
        if found.status != "pending":
            return found.message or f"the sign-in has {found.status}"
        await asyncio.sleep(POLL_SECONDS)


def has_browser() -> bool:
    """One with windows: without a display, a browser of the terminal would be started in it."""
    graphical = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return sys.stderr.isatty() and graphical
