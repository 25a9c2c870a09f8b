"""nginx with TLS in front of servers, with the configuration file that the repository has."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.stores.keeper import free_port

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx-tls.conf"
START_SECONDS = 10.0


def nginx_program() -> str | None:
    return shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


def self_signed(folder: Path) -> Path:
    """A certificate for localhost, which is its own authority; the key is beside it."""
    certificate = folder / "server.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    subject = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(folder / "server.key")]
    subprocess.run([*command.split(), *subject, "-out", str(certificate)], check=True, capture_output=True)
    return certificate


@contextmanager
def nginx(folder: Path, servers: Sequence[str], certificate: Path) -> Iterator[str]:
    """The address at which it listens, once it does."""
    port = free_port()
    text = _configured(folder, servers, certificate, port)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    program = nginx_program()
    assert program is not None
    settings = f"daemon off; pid {folder}/pid; error_log {folder}/error.log;"
    command = [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", settings]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            _listens(port, process, folder / "error.log")
            yield f"https://localhost:{port}"
        finally:
            process.terminate()
            process.wait(timeout=START_SECONDS)


def _configured(folder: Path, servers: Sequence[str], certificate: Path, port: int) -> str:
    """The file of the repository with the addresses, the port and the paths of a test, and nothing else changed."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    addresses = iter(servers)
    text, upstreams = re.subn(r"127\.0\.0\.1:\d+", lambda found: next(addresses), text)
    assert upstreams == len(servers)
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("server_name agent.example", "server_name localhost"),
        ("/etc/letsencrypt/live/agent.example/fullchain.pem", str(certificate)),
        ("/etc/letsencrypt/live/agent.example/privkey.pem", str(certificate.with_name("server.key"))),
        ("http {\n", f"http {{\n  access_log {folder}/access.log;\n"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    return text


def _listens(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("nginx does not listen")
