"""A machine of its own for each test: home, data, project; real processes; a provider that misbehaves on demand."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import select
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from tests.forked_process import ForkedProcess, can_fork

from holdfast import Holdfast
from holdfast.cli.main import cli
from holdfast.client.discovery import running_servers
from holdfast.schema.session import Session
from holdfast.schema.session_message import SessionMessage

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
PATIENCE = 45.0
"""Seconds after which something is not slow but stuck."""


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def session(self) -> str:
        """The id that `run` shows first."""
        line = next(line for line in self.err.splitlines() if line.startswith("session "))
        return line.split()[1]

    @property
    def complaint(self) -> str:
        """The one line about what went wrong; there must be exactly one, and no traceback."""
        assert "Traceback" not in self.err, self.err
        lines = [line for line in self.err.splitlines() if line.startswith(("holdfast: ", "Error: "))]
        assert len(lines) == 1, self.err
        return lines[0]


class Machine:
    """Its `holdfast` processes are forked from one that has imported everything."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.project = home / "project"
        self.project.mkdir()
        (self.project / "hello.txt").write_text("hello world\n", encoding="utf-8")
        self.data = home / "data" / "holdfast"
        self.choices = home / "state" / "holdfast" / "choices.json"
        self.choices.parent.mkdir(parents=True, mode=0o700)
        self.choices.touch()  # the question of the first run was answered
        self.started_by: list[str] = []
        """A command that runs the one after it."""
        self._started: list[subprocess.Popen[str]] = []
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "NO_PROXY": "127.0.0.1",
        }

    def configure(self, **document: Any) -> None:
        (self.project / "opencode.json").write_text(json.dumps(document), encoding="utf-8")

    def configure_user(self, **document: Any) -> None:
        """The user's own configuration, which counts whatever the project is."""
        folder = self.home / "config" / "opencode"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "opencode.json").write_text(json.dumps(document), encoding="utf-8")

    def use_provider(
        self, url: str, *, models: dict[str, Any] | None = None, settings: dict[str, Any] | None = None, **options: Any
    ) -> None:
        """Failures are final, unless `settings` has another `retry`."""
        options = {"baseURL": url, **options}
        provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models or {"m": {}}}
        own = {"retry": {"total_seconds": 0}, **(settings or {})}
        self.configure_user(model="mock/m", provider={"mock": provider}, holdfast=own)

    def start(self, *arguments: str | bytes, **environment: str) -> subprocess.Popen[str]:
        environment = {**self.environment, **environment}
        process = self._process(*arguments, environment=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._started.append(process)
        return process

    def _process(
        self, *arguments: str | bytes, environment: dict[str, str], terminal: bool = False, **streams: int
    ) -> subprocess.Popen[str]:
        options: dict[str, Any] = {"cwd": self.project, "env": environment, "stdout": subprocess.PIPE, **streams}
        if not self.started_by and can_fork(environment):
            return ForkedProcess(arguments, terminal=terminal, **options)
        return subprocess.Popen(
            [*self.started_by, HOLDFAST, *arguments],
            text=True,
            start_new_session=terminal,
            preexec_fn=_take_terminal if terminal else None,
            **options,
        )

    def script(self, *turns: dict[str, Any]) -> None:
        """What demo/scripted does, turn by turn."""
        path = self.home / "script.json"
        path.write_text(json.dumps(turns), encoding="utf-8")
        self.environment["HOLDFAST_SCRIPT"] = str(path)

    def at_terminal(self, *arguments: str, controlling: bool = False, whole: bool = False, columns: int = 80) -> Person:
        """Start with a terminal for everything but the answer, or for the `whole` of it. Closing a controlling one
        sends SIGHUP."""
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        streams = {"stdin": slave, "stderr": slave, **({"stdout": slave} if whole else {})}
        process = self._process(*arguments, environment=self.environment, terminal=controlling, **streams)
        os.close(slave)
        self._started.append(process)
        return Person(process, master)

    def clean_up(self) -> None:
        """End what a failed test left running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        running_servers(self.environment)  # removes what a killed server left in the directory for temporary files

    def __call__(self, *arguments: str | bytes, **environment: str) -> Ran:
        return finish(self.start(*arguments, **environment))

    def commands_work(self) -> bool:
        """Sessions can be listed, and everything agrees with the event log."""
        return (self("sessions").code, self("doctor").code) == (0, 0)

    def healthy(self) -> bool:
        """The same without the cost of two processes."""
        return asyncio.run(self._examine())

    def look(self, session_id: str) -> tuple[Session, list[SessionMessage]]:
        """What is stored, seen by a host of our own."""
        return asyncio.run(self._look(session_id))

    def host(self, *, recover: bool = True) -> Holdfast:
        """A host in this process on the same data."""
        return Holdfast(self.project, preset="allow", data=self.data, environment=self.environment, recover=recover)

    async def _examine(self) -> bool:
        async with self.host() as hf:
            await hf.sessions.list()
            return await hf.verify() == []

    async def _look(self, session_id: str) -> tuple[Session, list[SessionMessage]]:
        async with self.host() as hf:
            return await hf.sessions.get(session_id), await hf.sessions.context(session_id)


class ColdMachine(Machine):
    """Each of its processes is started as a person starts it: for tests of its start, its memory and what others see of
    it."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.started_by = ["env"]


class NearMachine(Machine):
    """Runs commands inside this process, which takes a fifth of the time. Servers and terminals are still processes."""

    def __call__(self, *arguments: str | bytes, **environment: str) -> Ran:
        with pytest.MonkeyPatch.context() as patch:
            for name in os.environ:
                patch.delenv(name)
            for name, value in {**self.environment, **environment}.items():
                patch.setenv(name, value)
            patch.chdir(self.project)
            return invoke(*(os.fsdecode(argument) for argument in arguments))


def invoke(*arguments: str, given: str | None = None) -> Ran:
    """A command inside this process."""
    result = CliRunner().invoke(cli, arguments, input=given, prog_name="holdfast")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def _take_terminal() -> None:
    """Make standard input the controlling terminal of a new process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Person:
    """Reads what is shown in a terminal, and types."""

    def __init__(self, process: subprocess.Popen[str], master: int) -> None:
        self.process = process
        self._master = master
        self._read = 0
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Until it is shown, after what was waited for before."""
        while (found := self.shown.find(text, self._read)) < 0:
            assert self._take(), f"{text!r} was not shown:\n{self.shown}"
        self._read = found + len(text)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def hang_up(self) -> None:
        os.close(self._master)

    def leave(self) -> Ran:
        """Once the command has ended."""
        while self._take():
            pass
        os.close(self._master)
        ran = finish(self.process)
        return Ran(ran.code, ran.out, self.shown)

    def _take(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], PATIENCE)
        assert ready, f"nothing more was shown:\n{self.shown}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the last one who had the terminal open is gone
            return False
        self.shown += data.decode().replace("\r\n", "\n")
        return bool(data)


def rows(ran: Ran) -> list[list[str]]:
    """The cells of a printed table, below its heading, each row split at its wider gaps."""
    assert ran.code == 0, ran
    return [re.split(r"  +", line.strip()) for line in ran.out.splitlines()[1:]]


def finish(process: subprocess.Popen[str], timeout: float = PATIENCE) -> Ran:
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"{process.args!r} did not end within {timeout:g} s\nstdout: {out}\nstderr: {err}")
    return Ran(process.returncode, out, err)


@pytest.fixture
def holdfast(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A module with `MACHINE = NearMachine` has its commands run in this process. Proofs start real processes."""
    usual = ColdMachine if request.node.get_closest_marker("prove") else Machine
    machine: Machine = getattr(request.module, "MACHINE", usual)(tmp_path)
    yield machine
    machine.clean_up()


@pytest.fixture
def here(holdfast: Machine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """The same commands inside this process, which is quicker."""
    for name in os.environ:
        monkeypatch.delenv(name)
    for name, value in holdfast.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(holdfast.project)
    return invoke


class Server(NamedTuple):
    process: subprocess.Popen[str]
    url: str


@pytest.fixture
def serve(holdfast: Machine) -> Callable[..., Server]:
    """Start a server on a port of its own."""

    def start(*arguments: str, **environment: str) -> Server:
        process = holdfast.start("serve", "--port", "0", *arguments, **environment)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "listening on" in line, finish(process)
        return Server(process, line.split()[-1])

    return start


def frame(delta: dict[str, Any], finish: str | None = None) -> bytes:
    chunk = {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


class Provider:
    """An OpenAI-compatible endpoint. `behave` is called with the handler of each request."""

    def __init__(self) -> None:
        self.behave: Callable[[BaseHTTPRequestHandler], None] = Provider.answer
        self.asked = threading.Semaphore(0)
        self.released = threading.Event()
        self.bodies: list[dict[str, Any]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                provider.bodies.append(self.body)
                provider.asked.release()
                provider.behave(self)
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    @staticmethod
    def head(handler: BaseHTTPRequestHandler, status: int = 200, kind: str = "text/event-stream") -> None:
        handler.send_response(status)
        handler.send_header("content-type", kind)
        handler.end_headers()

    @staticmethod
    def answer(handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler)
        handler.wfile.write(frame({"content": "fine"}) + frame({}, "stop") + b"data: [DONE]\n\n")

    def answer_later(self, handler: BaseHTTPRequestHandler) -> None:
        self.released.wait(PATIENCE)
        with suppress(OSError):
            Provider.answer(handler)

    def hang(self, handler: BaseHTTPRequestHandler) -> None:
        """Says nothing until the test is over."""
        self.released.wait(PATIENCE)

    def stall(self, handler: BaseHTTPRequestHandler) -> None:
        """Begins an answer and never ends it."""
        Provider.head(handler)
        handler.wfile.write(frame({"content": "so far "}))
        handler.wfile.flush()
        self.released.wait(PATIENCE)


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    serving = threading.Thread(target=provider.server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield provider
    provider.released.set()
    provider.server.shutdown()
    serving.join()
    provider.server.server_close()


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def eventually(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)
