"""A real `holdfast serve`: found by clients of this machine while it runs."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import uvicorn
from tests.plain_http import loopback_listener

from holdfast.client.connect import connect, connect_sync
from holdfast.client.discovery import running_servers
from holdfast.client.errors import ClientError
from holdfast.core.runtime.runtime import Runtime
from holdfast.embedded.connection import Connection
from holdfast.embedded.http_server import HttpServer
from holdfast.embedded.listening import listen
from holdfast.embedded.serve import Served, Serving, serve
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.prompt import PromptInput
from holdfast.schema.session import Session
from holdfast.server.app import App

pytestmark = pytest.mark.timeout(60)


def test_a_server_registers_while_it_runs(tmp_path: Path, project: Path) -> None:
    """API-040, API-046: address, version and process in a state file; a client finds it
    and its generated password without being told. When it ends, nobody finds it."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [str(Path(sys.executable).with_name("holdfast")), "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().rpartition(" ")[2].strip()
            (server,) = running_servers(environment)
            with connect_sync(environment=environment) as client:
                assert client.location.get().directory == str(project)
        finally:
            process.terminate()
            process.communicate(timeout=40)

    assert (server.url, server.pid) == (url, process.pid)
    assert server.data == str(tmp_path / ".local" / "share" / "holdfast")
    assert running_servers(environment) == []
    with pytest.raises(ClientError, match="no server runs"):
        connect_sync(environment=environment)


@pytest.mark.anyio
async def test_a_caller_who_waits_does_not_hold_the_server_up(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """API-119, API-402: what runs is interrupted first, so that the caller is answered and the server can end."""
    model.hold(0)
    app = App(runtime)
    config = uvicorn.Config(app, http=Connection, lifespan="off", log_level="critical", timeout_graceful_shutdown=600)
    server = HttpServer(config, app)
    with loopback_listener() as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        async with asyncio.timeout(30), connect(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
            await client.sessions.prompt(session.id, prompt=PromptInput(text="slow"))
            waiting = asyncio.create_task(client.sessions.wait(session.id))
            await model.seen(1)
            while not server.server_state.tasks:  # noqa: ASYNC110 - until the call has arrived
                await asyncio.sleep(0.005)
            server.should_exit = True
            await waiting
            await serving


def test_responses_are_sent_at_once_on_every_event_loop() -> None:
    """asyncio turns Nagle's algorithm off only for sockets that are known to be TCP."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP


@pytest.mark.anyio
@pytest.mark.parametrize(("hostname", "near"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "127.0.0.1")])
async def test_a_server_on_every_address_is_found_on_this_machine(
    hostname: str, near: str, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-046: clients are told an address that they can call, and have the password for it."""
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    for name in os.environ:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project)
    ready: asyncio.Future[Served] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(Serving(hostname, 0), ready=ready.set_result))
    served = await ready
    (server,) = running_servers(environment)

    def directory() -> str:
        with connect_sync(server.url, environment=environment) as client:
            return client.location.get().directory

    try:
        assert await asyncio.to_thread(directory) == str(project)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    assert served.url == f"http://{hostname}:{served.url.rpartition(':')[2]}"
    assert server.url == f"http://{near}:{served.url.rpartition(':')[2]}"


@pytest.mark.anyio
async def test_a_server_that_ends_answers_over_connections_that_it_has_taken(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-451: new ones are refused by then. A proxy that sent a request sends it to no other server."""
    monkeypatch.setattr("holdfast.embedded.http_server.FIRST_REQUEST_SECONDS", 600)
    app = App(runtime)
    server = HttpServer(uvicorn.Config(app, http=Connection, lifespan="off", log_level="critical"), app)
    with loopback_listener() as listener:
        address = listener.getsockname()
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection(*address)
            while not server.server_state.connections:  # noqa: ASYNC110 - until it was taken
                await asyncio.sleep(0.005)
            server.should_exit = True
            while await is_accepted(address):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            writer.write(b"GET /api/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            await serving
    assert answer.startswith(b"HTTP/1.1 200 ")


async def is_accepted(address: tuple[str, int]) -> bool:
    try:
        _, writer = await asyncio.open_connection(*address)
    except OSError:
        return False
    writer.close()
    return True
