"""Finds the server that runs on the same data, or starts one that stays when this process ends."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holdfast.client.credential import state_folder
from holdfast.client.local_socket import UntrustedSocket, verify_socket
from holdfast.private_files import own_directory
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.client.discovery import RunningServer

START_SECONDS = 30.0
POLL_SECONDS = 0.05
LOG_CHARACTERS = 2_000


class ServerFailed(HoldfastError):
    """No server runs, and none could be started."""


async def found_or_started(environment: dict[str, str], *, local: bool = False) -> RunningServer:
    """A server on the data that this environment selects. With `local` any will do, and one that is started has no
    port and ends by itself; nothing is printed. Several callers start one together. Raises ServerFailed."""
    if (server := _found(environment, local=local)) is not None:
        return server
    folder = state_folder(environment)
    own_directory(folder)
    log = folder / ("serve-local.log" if local else "serve.log")
    with _starting(folder / "starting.lock") as alone:
        deadline = time.monotonic() + START_SECONDS
        process: subprocess.Popen[bytes] | None = None
        first = False
        while time.monotonic() < deadline:
            if (server := _found(environment, local=local)) is not None and _answers(server):
                if not local:
                    told = f"started a server in the background; `kill {server.pid}` ends it, its log is {log}"
                    click.echo(told, err=True)
                return server
            if process is None and not first:
                first = alone()  # looks once more: the process that was first before may have started one just now
            elif process is None:
                process = _start(environment, log, local=local)
            elif process.poll() is not None:
                break
            await asyncio.sleep(POLL_SECONDS)
        else:
            if process is not None:
                process.terminate()
            raise ServerFailed(f"the server was not ready within {START_SECONDS:g} s; its log is {log}")
    said = log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARACTERS:].strip()
    raise ServerFailed(f"the server ended with {process.returncode}: {said or 'it said nothing'}")


def _found(environment: dict[str, str], *, local: bool) -> RunningServer | None:
    from holdfast.embedded.registration import server_of

    return server_of(environment, port=not local)


@contextmanager
def _starting(path: Path) -> Iterator[Callable[[], bool]]:
    """Whether this process is the one that starts a server; others wait for that one."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def alone() -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        yield alone
    finally:
        os.close(handle)


def _start(environment: dict[str, str], log: Path, *, local: bool) -> subprocess.Popen[bytes]:
    """In a session of its own, so that it stays when the terminal is closed."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            # -P: nothing is imported from the current directory, which may be a cloned repository.
            [sys.executable, "-P", "-m", "holdfast", "serve", *(["--local"] if local else [])],
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
