"""Bodies far beyond the limit, against a real `holdfast serve` whose memory is watched from outside."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.server.conftest import PATIENCE

MEBIBYTE = 1024 * 1024
BODY = 100 * MEBIBYTE
# The body limit is 32 MiB; what is read of a larger body is dropped, not gathered.
GROWTH = 64 * MEBIBYTE

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see memory")


class Server:
    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        place = urlsplit(url)
        self.address = (place.hostname or "", place.port or 0)

    def peak(self) -> int:
        """The most memory that the process ever held, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def exchange(self, head: bytes, pieces: Iterable[bytes] = ()) -> bytes:
        """Send all of it, then read the answer to its end."""
        with socket.create_connection(self.address, timeout=PATIENCE) as connection:
            connection.sendall(head + b"host: localhost\r\nconnection: close\r\n\r\n")
            for piece in pieces:
                connection.sendall(piece)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
            return answer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HOLDFAST_DATA": str(tmp_path / "data")}
    command = [str(Path(sys.executable).with_name("holdfast")), "serve", "--no-auth", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Server(process, process.stdout.readline().split()[-1])
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def blob() -> Iterator[bytes]:
    yield b'{"agent":"'
    for _ in range(BODY // MEBIBYTE):
        yield b"x" * MEBIBYTE


def chunked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


POST = b"POST /api/session HTTP/1.1\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_huge_body_is_refused_in_bounded_memory(server: Server, framing: str) -> None:
    """API-011: 100 MB give a tagged 400 which the sender gets to see; the server keeps its size and goes on."""
    assert b'{"data":' in server.exchange(POST + b"content-length: 2\r\n", iter([b"{}"]))
    before = server.peak()
    if framing == "length":
        size = sum(len(piece) for piece in blob())
        answer = server.exchange(POST + b"content-length: %d\r\n" % size, blob())
    else:
        answer = server.exchange(POST + b"transfer-encoding: chunked\r\n", chunked(blob()))

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"_tag":"InvalidRequestError"' in answer
    assert b'"kind":"Payload"' in answer
    assert server.peak() - before < GROWTH
    assert b'{"healthy":true}' in server.exchange(b"GET /api/health HTTP/1.1\r\n")


def test_a_body_that_is_cut_short_creates_nothing(server: Server) -> None:
    """API-011: the connection ends in the middle; the server forgets it."""
    with socket.create_connection(server.address, timeout=PATIENCE) as connection:
        connection.sendall(POST + b'host: localhost\r\ncontent-length: 1000\r\n\r\n{"agent":')

    assert b'{"data":[],' in server.exchange(b"GET /api/session HTTP/1.1\r\n")
