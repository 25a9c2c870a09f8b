"""Finds the server that runs on the same data, or starts one that stays when this process ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import click

from holdfast.client.credential import state_folder
from holdfast.client.local_socket import UntrustedSocket, verify_socket
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.client.discovery import RunningServer

START_SECONDS = 30.0
POLL_SECONDS = 0.05
LOG_CHARACTERS = 2_000


class ServerFailed(HoldfastError):
    """No server runs, and none could be started."""


async def found_or_started(environment: dict[str, str]) -> RunningServer:
    """Raises ServerFailed."""
    from holdfast.embedded.registration import server_of

    if (server := server_of(environment)) is not None:
        return server
    log = state_folder(environment) / "serve.log"
    process = _start(environment, log)
    try:
        async with asyncio.timeout(START_SECONDS):
            while process.poll() is None:
                if (server := server_of(environment)) is not None and _answers(server):
                    click.echo(
                        f"started a server in the background; `kill {server.pid}` ends it, its log is {log}", err=True
                    )
                    return server
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        process.terminate()
        raise ServerFailed(f"the server was not ready within {START_SECONDS:g} s; its log is {log}") from None
    said = log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARACTERS:].strip()
    raise ServerFailed(f"the server ended with {process.returncode}: {said or 'it said nothing'}")


def _start(environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """In a session of its own, so that it stays when the terminal is closed."""
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", "serve"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)


def _answers(server: RunningServer) -> bool:
    try:
        verify_socket(server.socket)
    except UntrustedSocket:
        return False
    return True
