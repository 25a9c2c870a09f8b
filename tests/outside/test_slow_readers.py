"""Callers that do not read what they asked for: the server's memory stays bounded, and others are served."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, ColdMachine, Machine, Provider, Server, frame
from tests.outside.test_server_limits import OWNER
from tests.outside.test_tokens import PASSWORD, created
from tests.plain_http import NO_TLS

MACHINE = ColdMachine
ANSWER_BYTES = 400_000
ANSWERS = 10
READERS = 80


@pytest.fixture
def server(holdfast: Machine, provider: Provider, serve: Callable[..., Server]) -> Server:
    holdfast.use_provider(provider.url, settings={"titles": False})
    return serve(OPENCODE_SERVER_PASSWORD=PASSWORD)


@pytest.fixture
def session(server: Server, holdfast: Machine, provider: Provider) -> str:
    """A Session with answers that are large."""

    def behave(handler: Any) -> None:
        Provider.head(handler)
        for _ in range(8):
            handler.wfile.write(frame({"content": "x" * (ANSWER_BYTES // 8)}))
        handler.wfile.write(frame({}, "stop") + b"data: [DONE]\n\n")

    provider.behave = behave
    with httpx2.Client(base_url=server.url, auth=OWNER, verify=NO_TLS, timeout=PATIENCE) as http:
        id: str = http.post("/api/session", json={}).json()["data"]["id"]
        for _ in range(ANSWERS):
            http.post(f"/api/session/{id}/prompt", json={"prompt": {"text": "more"}}).raise_for_status()
            http.post(f"/api/session/{id}/wait").raise_for_status()
        assert len(http.get(f"/api/session/{id}/message", params={"limit": 200}).content) > ANSWERS * ANSWER_BYTES
    return id


def memory(server: Server) -> int:
    """Resident memory in MB."""
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def asking(server: Server, token: str, path: str) -> socket.socket:
    """A request whose answer nobody reads."""
    address = urlsplit(server.url)
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.connect((address.hostname, address.port))
    head = f"GET {path} HTTP/1.1\r\nhost: {address.netloc}\r\nauthorization: Bearer {token}\r\n\r\n"
    opened.sendall(head.encode())
    return opened


@pytest.mark.parametrize(
    "path",
    [
        "/api/session/{}/event?after=0",
        "/api/session/{}/event?after=0&live=true",
        "/api/session/{}/message?limit=200",
        "/api/session/{}/tree/events",
    ],
)
def test_one_token_that_reads_nothing_takes_little_memory(
    server: Server, holdfast: Machine, session: str, path: str
) -> None:
    """OPS-500, OPS-501: streams of a Session and of a tree, and large answers; the owner is served meanwhile."""
    token = created(holdfast, "reader", "--role", "read")
    before = memory(server)
    with ExitStack() as stack:
        for _ in range(READERS):
            stack.enter_context(asking(server, token, path.format(session)))
        slowest = 0.0
        for _ in range(20):
            begun = time.monotonic()
            answer = httpx2.get(f"{server.url}/api/session", auth=OWNER, verify=NO_TLS, timeout=PATIENCE)
            slowest = max(slowest, time.monotonic() - begun)
            assert answer.status_code == 200
            time.sleep(0.1)
        assert memory(server) - before < 350
        assert slowest < 2.0
