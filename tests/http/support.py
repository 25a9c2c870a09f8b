"""Servers that speak raw bytes on the loopback, a certificate for them, a proxy."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def piece(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


ANSWER = HEAD + piece(b"hello") + piece(b"")
NO_TUNNELS = {
    "refused": b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
    "nonsense": b"nonsense\r\n\r\n",
    "endless": b"x" * 100_000,
    "cut": b"HTTP/1.1 2",
}
"""Answers of a proxy that does not connect."""


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def raw_server(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Speaks whatever the handler writes. Its address is a base URL."""

    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks)
        await server.wait_closed()


async def read_request(reader: asyncio.StreamReader) -> tuple[dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    headers[":request"] = head[0]
    return headers, await reader.readexactly(int(headers["content-length"]))


async def wait_for_close(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionResetError):  # so it is called when something we sent was never read
        while await reader.read(65_536):
            pass


def answering(*blocks: bytes, close: bool = True) -> Handler:
    """One request is answered with these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for block in blocks:
            writer.write(block)
            await writer.drain()
        if not close:
            await wait_for_close(reader)

    return serve


class Answering:
    """Gives each request of a connection the same answer, and counts the connections. With `requests`, closes one after
    so many; `closed` is set then."""

    def __init__(self, answer: bytes = ANSWER, requests: int | None = None) -> None:
        self.connections = 0
        self.closed = asyncio.Event()
        self._answer = answer
        self._requests = requests

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        left = self._requests
        while left != 0:
            try:
                await read_request(reader)
            except asyncio.IncompleteReadError:
                return
            writer.write(self._answer)
            await writer.drain()
            left = None if left is None else left - 1
        writer.close()
        await writer.wait_closed()
        self.closed.set()


class CutAnswer:
    """Sends the beginning of an answer, up to `cut`, and closes."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.cut = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(self.answer[: self.cut])
        await writer.drain()


class Authority:
    """Signs a certificate for the loopback, with itself."""

    def __init__(self, folder: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        self.certificate = folder / "certificate.pem"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        secret = folder / "key.pem"
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, secret)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


class ForwardProxy:
    """Tunnels, and passes on what comes with a whole address."""

    def __init__(self, *, refuse: bytes = b"") -> None:
        self.asked: list[dict[str, str]] = []
        self._refuse = refuse

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        self.asked.append({":request": first, **dict(line.split(": ", 1) for line in lines if line)})
        if self._refuse:
            writer.write(self._refuse)
            await writer.drain()
            return
        method, target, _ = first.split(" ")
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
        else:
            host, _, port = target.split("/")[2].rpartition(":")
        there, onward = await asyncio.open_connection(host, int(port))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            onward.write(head.encode())
        await asyncio.gather(self._copy(reader, onward), self._copy(there, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()
