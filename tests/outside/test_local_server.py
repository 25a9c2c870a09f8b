"""`holdfast serve --local`: a server without a port, which ends by itself."""

from __future__ import annotations

import json
import os
import subprocess

from tests.cli.conftest import Machine, finish

from holdfast.client.discovery import running_servers


def started(machine: Machine, *arguments: str) -> subprocess.Popen[str]:
    process = machine.start("serve", "--local", *arguments)
    assert process.stdout is not None
    assert "private socket" in process.stdout.readline()
    return process


def test_it_listens_on_no_port_and_serves_commands_on_the_same_data(holdfast: Machine) -> None:
    """TUI-106"""
    process = started(holdfast)
    (server,) = running_servers(holdfast.environment)
    assert server.url == "http://localhost:0"
    with open(f"/proc/{process.pid}/net/tcp", encoding="ascii") as table:
        listening = {line.split()[9] for line in table.readlines()[1:] if line.split()[3] == "0A"}
    assert not listening & _sockets(process.pid)
    ran = holdfast("run", "--model", "demo/echo", "What does hello.txt say?")
    assert "hello world" in ran.out
    assert "using the server" in ran.err
    process.terminate()
    assert finish(process).code == 0
    assert running_servers(holdfast.environment) == []


def _sockets(pid: int) -> set[str]:
    found = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        target = os.readlink(entry.path)
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found


def test_it_ends_when_nobody_is_connected_and_nothing_is_executed(holdfast: Machine) -> None:
    """TUI-106"""
    assert finish(started(holdfast, "--idle", "0.2")).code == 0
    assert running_servers(holdfast.environment) == []


def test_it_stays_while_a_session_is_executed(holdfast: Machine) -> None:
    """TUI-106"""
    holdfast.script({"text": " ".join(["word"] * 40), "pace": 0.05})
    process = started(holdfast, "--idle", "0.5")
    client = holdfast.start("run", "--model", "demo/scripted", "begin")
    assert client.stdout is not None
    assert client.stdout.read(4) == "word"
    client.kill()
    finish(process)
    (session,) = json.loads(holdfast("sessions", "--json").out)
    _, messages = holdfast.look(session["id"])
    answer = [part.text for message in messages for part in getattr(message, "content", ()) if hasattr(part, "text")]
    assert answer[-1].count("word") == 40


def test_options_that_need_a_port_are_refused(holdfast: Machine) -> None:
    """TUI-106"""
    assert "--port needs a port" in holdfast("serve", "--local", "--port", "0").complaint
    assert "--allow-host needs a port" in holdfast("serve", "--local", "--allow-host", "a").complaint
    assert "--idle needs --local" in holdfast("serve", "--idle", "5").complaint
