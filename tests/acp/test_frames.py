"""What a client may send: malformed frames, unknown methods, wrong parameters, floods, an early end. A real process,
without the official client, which would not send such things."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import HOLDFAST, Machine, holdfast

__all__ = ["holdfast"]

Json = dict[str, Any]
PATIENCE = 45.0
INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}


class Wire:
    """A client that writes what it wants."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.notified: list[Json] = []
        self._id = 100

    def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def receive(self) -> Json:
        """The next message that is no notification."""
        assert self.process.stdout is not None
        while True:
            line = self.process.stdout.readline()
            assert line, "the process has ended"
            message: Json = json.loads(line)
            if "id" in message:
                return message
            self.notified.append(message)

    def call(self, method: str, params: Any) -> Json:
        self._id += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}).encode())
        answer = self.receive()
        assert answer["id"] == self._id
        return answer

    def end(self) -> tuple[int, str]:
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        return code, self.process.stderr.read().decode()


@contextmanager
def wire(machine: Machine, *, initialized: bool = True) -> Iterator[Wire]:
    process = subprocess.Popen(
        [HOLDFAST, "acp"],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        with process:
            opened = Wire(process)
            if initialized:
                assert "result" in opened.call("initialize", INITIALIZE)
            yield opened
            if process.poll() is None:
                opened.end()
    finally:
        watchdog.cancel()


def test_malformed_frames_are_answered_and_the_connection_goes_on(holdfast: Machine) -> None:
    """ACP-061"""
    with wire(holdfast) as client:
        for line, code in (
            (b"{not json", -32700),
            (b"\xff\xfe\x00", -32700),
            (b"[" * 100_000, -32700),
            (b'"text"', -32600),
            (b"[]", -32600),
            (b'{"id": 1, "method": "session/list"}', -32600),
            (b'{"jsonrpc": "1.0", "id": 1, "method": "session/list"}', -32600),
            (b'{"jsonrpc": "2.0", "id": null, "method": "session/list"}', -32600),
            (b'{"jsonrpc": "2.0", "id": {}, "method": "session/list"}', -32600),
            (b'{"jsonrpc": "2.0"}', -32600),
        ):
            client.send(line)
            answer = client.receive()
            assert (answer["id"], answer["error"]["code"]) == (None, code), line[:50]
        client.send(b"", b"   ", b'{"jsonrpc": "2.0", "id": 7, "result": {}}')  # an answer to nothing
        assert client.call("session/list", {})["result"] == {"sessions": []}
        assert client.end() == (0, "")


def test_unknown_methods_and_wrong_parameters_are_refused(holdfast: Machine) -> None:
    """ACP-062, ACP-060"""
    with wire(holdfast, initialized=False) as client:
        early = client.call("session/list", {})
        assert early["error"] == {"code": -32600, "message": "The first request must be `initialize`"}
        assert client.call("initialize", {"protocolVersion": "one"})["error"]["code"] == -32602
        newer = client.call("initialize", {"protocolVersion": 99})["result"]
        assert newer["protocolVersion"] == 1
        assert newer["authMethods"] == []
        terminal = {"protocolVersion": 1, "clientCapabilities": {"auth": {"terminal": True}}}
        [method] = client.call("initialize", terminal)["result"]["authMethods"]
        assert (method["type"], method["args"]) == ("terminal", ["--login"])
        assert client.call("authenticate", {"methodId": "login"})["result"] == {}
        assert client.call("session/fly", {})["error"]["code"] == -32601
        client.send(b'{"jsonrpc": "2.0", "method": "session/soar", "params": {}}')  # a notification has no answer
        client.send(b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": 5}}')
        client.send(b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "ses_none"}}')
        here = str(holdfast.project)
        for method, params in (
            ("session/new", {}),
            ("session/new", {"cwd": here, "mcpServers": "all"}),
            ("session/new", {"cwd": here, "mcpServers": [{}] * 1000}),
            ("session/new", {"cwd": here, "mcpServers": [{"name": "x", "type": "smoke-signals"}]}),
            ("session/load", {"cwd": here, "mcpServers": []}),
            ("session/prompt", {"sessionId": "ses_x", "prompt": []}),
            ("session/prompt", []),
            ("session/list", {"cursor": "nonsense"}),
        ):
            answer = client.call(method, params)
            assert answer["error"]["code"] == -32602, (method, params, answer)
        session = client.call("session/new", {"cwd": here, "mcpServers": []})["result"]["sessionId"]
        for block in ({"type": "text"}, {"type": "hologram"}, {"type": "resource"}, {"type": "text", "text": " "}):
            answer = client.call("session/prompt", {"sessionId": session, "prompt": [block]})
            assert answer["error"]["code"] == -32602, block
        missing = client.call("session/prompt", {"sessionId": "ses_x", "prompt": [{"type": "text", "text": "x"}]})
        assert missing["error"]["code"] == -32002
        assert client.end()[0] == 0


def test_a_client_that_floods_is_given_up(holdfast: Machine) -> None:
    """ACP-063"""
    with wire(holdfast) as client:
        asked = [
            json.dumps({"jsonrpc": "2.0", "id": n, "method": "session/list", "params": {}}).encode()
            for n in range(5000)
        ]
        with suppress(BrokenPipeError):
            client.send(*asked)
        code, complaint = client.end()
        assert code == 1
        assert complaint == (
            "holdfast: The client was given up: The other side sent 256 requests without waiting for an answer\n"
        )
    assert holdfast.commands_work()


def test_a_flood_of_garbage_takes_no_memory_and_ends_nothing(holdfast: Machine) -> None:
    """ACP-063"""
    with wire(holdfast) as client:
        reading = threading.Thread(target=_read_errors, args=(client, 300), daemon=True)
        reading.start()
        client.send(*[b"garbage"] * 20_000)
        client.send(b'{"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}}')
        reading.join(PATIENCE)
        assert not reading.is_alive()
        size = int(Path(f"/proc/{client.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert size < 200 * 1024 * 1024


def _read_errors(client: Wire, most: int) -> None:
    while client.receive().get("id") != 1:
        pass


def test_a_message_that_is_too_long_ends_the_connection_with_a_reason(holdfast: Machine) -> None:
    """ACP-063"""
    with wire(holdfast) as client:
        with suppress(BrokenPipeError):
            for _ in range(70):
                client.process.stdin.write(b"x" * 1024 * 1024)  # type: ignore[union-attr]
        code, complaint = client.end()
        assert code == 1
        assert "is larger than 67108864 bytes" in complaint


@pytest.mark.store("sqlite", reason="a file of another version")
def test_a_database_of_a_newer_version_is_refused_in_words(holdfast: Machine) -> None:
    """ACP-064: initialize is answered; every other request says why it cannot be."""
    import sqlite3

    assert holdfast("sessions").code == 0
    [path] = [found for found in holdfast.data.rglob("*.db")]
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 9999")
    database.close()
    with wire(holdfast) as client:
        for _ in range(2):
            answer = client.call("session/list", {})
            assert "9999" in answer["error"]["message"] or "newer" in answer["error"]["message"], answer
        assert client.end()[0] == 0


@pytest.mark.parametrize("name", ["input", "output"])
def test_what_is_no_pipe_is_refused_with_a_reason(holdfast: Machine, name: str) -> None:
    """ACP-002"""
    with Path(os.devnull).open("r+b") as nothing:
        streams: Json = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, f"std{name[:-3]}": nothing}
        ran = subprocess.run(
            [HOLDFAST, "acp"],
            cwd=holdfast.project,
            env=holdfast.environment,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE,
            **streams,
        )
    assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1), ran.stderr
    assert f"Standard {name} is not a pipe" in ran.stderr
    assert "An editor starts this command." in ran.stderr


def test_initialize_is_answered_before_the_runtime_is_imported(holdfast: Machine) -> None:
    """ACP-003: the time is printed, and compared with that of the interpreter; a busy machine cannot fail this."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        with wire(holdfast):
            times.append(time.perf_counter() - began)
    began = time.perf_counter()
    subprocess.run([HOLDFAST, "--version"], env=holdfast.environment, check=True, capture_output=True)
    bare = time.perf_counter() - began
    print(f"start to initialize: {statistics.median(times):.3f} s; holdfast --version: {bare:.3f} s")
    assert min(times) < max(0.3, 6 * bare)


def test_a_provider_is_connected_in_the_terminal_that_an_editor_opens(holdfast: Machine) -> None:
    """ACP-001"""
    person = holdfast.at_terminal("acp", "--login")
    person.wait_for("Provider")
    person.type("anthropic\n")
    person.wait_for("Key of anthropic")
    person.type("sk-secret-of-a-person\n")
    assert person.leave().code == 0
    listed = holdfast("auth", "list")
    assert "anthropic" in listed.out
