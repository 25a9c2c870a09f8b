"""`holdfast web`: opens the page of the server on this data, signed in, and starts a server if none runs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import execute

if TYPE_CHECKING:
    from pathlib import Path

CODE_SECONDS = 10.0
NO_BROWSER = "no browser was found; open the address above"


@click.command("web")
@click.option("--print-url", is_flag=True, help="Only print the address; it signs in once, within a minute.")
def command(print_url: bool) -> None:
    """Open the page of the server that runs on this data, and sign in. Without a server, start one in the background.

    The printed address contains a code that signs in once, within a minute."""
    sys.exit(execute(_web(print_url)))


async def _web(print_url: bool) -> int:
    from holdfast.cli.background_server import found_or_started

    server = await found_or_started(dict(os.environ))
    address = server.url + await _path(server.url)
    click.echo(address)
    if not print_url and not _opened(address):
        click.echo(NO_BROWSER, err=True)
    return 0


async def _path(url: str) -> str:
    """The path of the page with a code that signs in. It is asked for over the local socket."""
    from holdfast.cli.background_server import ServerFailed
    from holdfast.client.connect import transport_to
    from holdfast.client.transport import Request
    from holdfast.schema.codec import decode_any

    transport = transport_to(url, os.environ)
    try:
        answer = await transport.send(Request("POST", "/web/code", {}, timeout=CODE_SECONDS))
        body = await answer.read()
    finally:
        await transport.close()
    if answer.status != 200:
        raise ServerFailed(f"the server at {url} gives no code to sign in with (status {answer.status})")
    return str(decode_any(body)["path"])


def _opened(address: str) -> bool:
    """Open a browser, if there is one with windows. It gets a file that leads to the address: other users of the
    machine see the arguments of its process."""
    import webbrowser

    if sys.platform == "linux" and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))):
        return False
    return webbrowser.open(_redirecting_file(address).as_uri())


def _redirecting_file(address: str) -> Path:
    """A document that only this user can read. The next call replaces it."""
    import tempfile
    from pathlib import Path

    from holdfast.client.credential import state_folder
    from holdfast.private_files import own_directory

    folder = state_folder(os.environ)
    own_directory(folder)
    handle, draft = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><a href="{address}">Open</a>\n'
        )
    return Path(draft).replace(folder / "open-page.html")
