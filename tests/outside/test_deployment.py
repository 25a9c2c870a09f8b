"""What a service manager and a proxy rely on."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, Server, finish

from holdfast import connect_sync
from holdfast.schema.session_message import ShellMessage

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = (DEPLOY / "holdfast@.service").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [(), ("--drain", "20")], ids=["at once", "drain"])
def test_a_service_manager_is_told_when_the_server_is_ready_and_when_it_ends(
    holdfast: Machine, serve: Callable[..., Server], options: tuple[str, ...]
) -> None:
    """OPS-452: and commands of agents do not get its address."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(30)
        manager.bind(str(holdfast.home / "notify"))
        server = serve(*options, NOTIFY_SOCKET=str(holdfast.home / "notify"))
        try:
            assert manager.recv(100) == b"READY=1"
            with connect_sync(server.url, environment=holdfast.environment) as client:
                session = client.sessions.create()
                client.sessions.shell(session.id, command="echo [$NOTIFY_SOCKET]")
                client.sessions.wait(session.id)
                shells = [
                    message for message in client.sessions.context(session.id) if isinstance(message, ShellMessage)
                ]
        finally:
            server.process.send_signal(signal.SIGTERM)
            finish(server.process)
        assert manager.recv(100) == b"STOPPING=1"
    assert [shell.output.strip() for shell in shells] == ["[]"]


def test_a_server_serves_without_a_service_manager_that_answers(
    holdfast: Machine, serve: Callable[..., Server]
) -> None:
    """OPS-452: an address where nobody listens, and an abstract one."""
    for address in (str(holdfast.home / "nobody"), "@holdfast-nobody"):
        server = serve(NOTIFY_SOCKET=address)
        try:
            with connect_sync(server.url, environment=holdfast.environment) as client:
                assert client.health.get().healthy
        finally:
            server.process.send_signal(signal.SIGTERM)
            assert finish(server.process).code == 0


def test_the_unit_starts_a_server_that_has_time_to_drain(holdfast: Machine) -> None:
    """OPS-453: with options that there are."""
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    known = holdfast("serve", "--help").out
    options = re.findall(r" (--[a-z-]+)", command)
    assert "--drain" in options
    assert [option for option in options if option not in known] == []
    (drain,) = re.findall(r"--drain (\d+)", command)
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert int(stop) > int(drain)
    assert "Type=notify" in UNIT
