"""nginx with TLS in front of two servers that are restarted one after the other."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.nginx import nginx, nginx_program, self_signed
from tests.stores.keeper import free_port

from holdfast import AsyncClient, ModelRef, PromptInput, connect, follow

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.acceptance,
    pytest.mark.timeout(120),
    pytest.mark.skipif(nginx_program() is None, reason="nginx is not installed"),
]

SESSIONS, FOLLOWERS = 20, 200
PASSWORD = "secret"
ECHO = ModelRef(provider_id="demo", id="echo")
PATIENCE = 60.0
UNIT = Path(__file__).parents[2] / "deploy" / "holdfast@.service"


class Node:
    """A server on the database of the test, always on the same port."""

    def __init__(self, name: str, home: Path, project: Path) -> None:
        self.port = free_port()
        self._command = [str(Path(sys.executable).with_name("holdfast")), "serve", "--port", str(self.port)]
        self._command += ["--node-name", name, "--drain", "20", "--allow-host", "localhost"]
        self._project = project
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "OPENCODE_SERVER_PASSWORD": PASSWORD,
        }
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, cwd=self._project, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        assert b"listening on" in await self._process.stdout.readline()

    async def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Follower:
    """Follows a Session to a sequence, through whatever happens to the servers."""

    def __init__(self, url: str, session_id: str) -> None:
        self.session_id = session_id
        self.seen: list[int] = []
        self.moved = asyncio.Event()
        self._url = url

    async def run(self) -> None:
        async with connect(self._url, password=PASSWORD) as client:
            async for event in follow(client, self.session_id):
                self.seen.append(event.durable.seq)
                self.moved.set()


async def prompting(client: AsyncClient, session_ids: list[str], end: asyncio.Event, counts: list[int]) -> None:
    """Prompts and reads, one after the other, until it is to end. What fails is raised."""
    while not end.is_set():
        for session_id in session_ids:
            await client.sessions.prompt(session_id, prompt=PromptInput(text="What does hello.txt say?"))
            await client.sessions.get(session_id)
            await client.sessions.messages(session_id, limit=5)
            await client.sessions.wait(session_id)
            counts.append(4)


async def test_followers_and_requests_do_not_notice_a_rolling_restart(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-450, OPS-451: TLS, 200 followers, two servers on one database; no request fails and no event is missing."""
    certificate = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    nodes = [Node(name, tmp_path, project) for name in ("left", "right")]
    try:
        for node in nodes:
            await node.start()
        with nginx(tmp_path, [f"127.0.0.1:{node.port}" for node in nodes], certificate) as url:
            async with asyncio.timeout(PATIENCE), connect(url, password=PASSWORD) as client:
                await rolling_restart(client, url, nodes)
    finally:
        for node in nodes:
            await node.kill()


async def rolling_restart(client: AsyncClient, url: str, nodes: list[Node]) -> None:
    sessions = [(await client.sessions.create(model=ECHO)).id for _ in range(SESSIONS)]
    followers = [Follower(url, sessions[number % SESSIONS]) for number in range(FOLLOWERS)]
    following = [asyncio.create_task(follower.run()) for follower in followers]
    end, counts = asyncio.Event(), list[int]()
    asking = [asyncio.create_task(prompting(client, sessions[part::4], end, counts)) for part in range(4)]
    try:
        await asyncio.gather(*(follower.moved.wait() for follower in followers))
        for node in nodes:
            before = len(counts)
            assert await node.stop() == 0
            await node.start()
            while len(counts) < before + SESSIONS:  # requests went on meanwhile, and go on
                await asyncio.sleep(0.01)
                for failed in (task for task in (*asking, *following) if task.done()):
                    failed.result()
        end.set()
        await asyncio.gather(*asking)
        for session_id in sessions:
            await client.sessions.wait(session_id)
        await caught_up(client, followers)
    finally:
        for task in (*asking, *following):
            task.cancel()
        await asyncio.gather(*asking, *following, return_exceptions=True)


async def caught_up(client: AsyncClient, followers: list[Follower]) -> None:
    """Each has seen every public event of its Session once and in order."""
    for follower in followers:
        expected = await public_events(client, follower.session_id)
        while len(follower.seen) < len(expected):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert follower.seen == expected


async def public_events(client: AsyncClient, session_id: str) -> list[int]:
    found: list[int] = []
    more = True
    while more:
        page = await client.sessions.history(session_id, limit=100, after=found[-1] if found else None)
        found += [event.durable.seq for event in page.events]
        more = page.has_more
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """OPS-453"""
    text = UNIT.read_text(encoding="utf-8").replace("/opt/holdfast/bin/holdfast", sys.executable)
    unit = tmp_path / "holdfast@.service"
    unit.write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    verified = subprocess.run(command, capture_output=True, text=True, check=False)
    complaints = [line for line in verified.stderr.splitlines() if "holdfast@" in line]
    assert (verified.returncode, complaints) == (0, [])
