"""`holdfast serve`: who may come in, and where it listens."""

from __future__ import annotations

import base64
import signal
import stat
import subprocess
import sys
from collections.abc import Callable

import httpx2
import pytest
from tests.cli.conftest import Machine, Ran, Server, finish, taken_port
from tests.plain_http import NO_TLS


def status(url: str, password: str | None = None, user: str = "opencode") -> int:
    auth = (user, password) if password is not None else None
    return httpx2.get(f"{url}/api/health", auth=auth, verify=NO_TLS).status_code


def test_a_password_is_generated_for_every_start(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-040, API-042, API-046: 32 random bytes in a file that only its owner reads, as long as the server runs."""
    first = serve()
    path = holdfast.home / "state" / "holdfast" / "server-password"
    password = path.read_text(encoding="ascii").strip()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    assert len(base64.urlsafe_b64decode(password + "=")) == 32
    assert (status(first.url), status(first.url, "wrong"), status(first.url, password)) == (401, 401, 200)
    first.process.terminate()
    ran = finish(first.process)
    assert str(path) in ran.err
    assert password not in ran.out + ran.err
    assert not path.exists()
    second = serve()
    assert (status(second.url, password), status(second.url, path.read_text().strip())) == (401, 200)


def test_a_configured_password_and_user_count(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-040: from the environment; nothing is written then."""
    url = serve(OPENCODE_SERVER_PASSWORD="mine", OPENCODE_SERVER_USERNAME="me").url

    assert (status(url), status(url, "mine"), status(url, "mine", "me")) == (401, 401, 200)
    assert not (holdfast.home / "state" / "holdfast" / "server-password").exists()


def test_an_empty_password_is_none(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-040: an empty variable is not a password that anyone could guess."""
    url = serve(OPENCODE_SERVER_PASSWORD="").url

    assert (status(url), status(url, "")) == (401, 401)


def test_a_password_file_that_others_could_read_is_made_private(
    holdfast: Machine, serve: Callable[..., Server]
) -> None:
    """API-046: mode 0600 also when the file was there before."""
    path = holdfast.home / "state" / "holdfast" / "server-password"
    path.write_text("", encoding="ascii")
    path.chmod(0o644)
    serve()

    assert path.read_text(encoding="ascii").strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_auth_nobody_is_asked(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-040: only on request, and it is said aloud."""
    server = serve("--no-auth")
    assert status(server.url) == 200
    server.process.terminate()
    ran = finish(server.process)

    assert "no password" in ran.err
    assert not (holdfast.home / "state" / "holdfast" / "server-password").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--no-auth", "--hostname", "::"),
        ("--no-auth", "--hostname", ""),
        ("--no-auth", "--hostname", "192.0.2.7"),
        ("--no-auth", "--hostname", "localhost.evil.example"),
        ("--allow-host", "https://agent.example"),
        ("--allow-host", "agent.example:443"),
        ("--allow-host", "*"),
        ("--allow-host", ""),
        ("--allow-origin", "agent.example"),
        ("--allow-origin", "https://agent.example/"),
        ("--allow-origin", "*"),
        ("--allow-origin", "null"),
    ],
)
def test_options_that_would_expose_the_server_are_refused(here: Callable[..., Ran], arguments: tuple[str, ...]) -> None:
    """API-410, API-413: a usage error in one line, and nothing listens."""
    ran = here("serve", "--port", "0", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert arguments[0] in ran.complaint


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(holdfast: Machine, serve: Callable[..., Server], number: signal.Signals) -> None:
    """API-046: its registration goes with it."""
    server = serve("--no-auth")
    registered = holdfast.home / "state" / "holdfast" / "servers"
    assert list(registered.iterdir())
    server.process.send_signal(number)

    assert finish(server.process).code == 0
    assert list(registered.iterdir()) == []


def test_a_server_that_does_not_close_in_time_ends_all_the_same(holdfast: Machine) -> None:
    """API-416: after a bound it ends all the same, and says so; the next process takes over as after a crash."""
    program = """
import asyncio
from holdfast.cli import main, serve
from holdfast.core.runtime.runtime import Runtime

async def never(*_):
    await asyncio.sleep(3600)

serve.EXIT_SECONDS = 0.2
Runtime.__aexit__ = never
main.main()
"""
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--no-auth"]
    with subprocess.Popen(
        command,
        cwd=holdfast.project,
        env=holdfast.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "listening" in process.stdout.readline()
        process.terminate()
        ran = finish(process)

    assert ran.code == 1
    assert "not everything closed" in ran.complaint


def test_a_port_in_use_is_said(holdfast: Machine) -> None:
    """With address and reason."""
    with taken_port() as port:
        ran = holdfast("serve", "--no-auth", "--port", str(port))

    assert (ran.code, ran.out) == (1, "")
    assert f"127.0.0.1:{port}" in ran.complaint
    assert "in use" in ran.complaint


@pytest.mark.parametrize(
    "arguments",
    [("--port", "65536"), ("--port", "-1"), ("--port", "x"), ("--hostname", "no.such.host.invalid", "--port", "0")],
)
def test_an_address_that_cannot_be_is_said(holdfast: Machine, arguments: tuple[str, ...]) -> None:
    """One line each."""
    ran = holdfast("serve", "--no-auth", *arguments)

    assert ran.code in (1, 2)
    assert ran.complaint


def test_the_default_port_is_searched_upwards(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-046: a second server takes the next free port after 4096 instead of failing."""
    started = [holdfast.start("serve", "--no-auth") for _ in range(2)]
    lines = []
    for process in started:
        assert process.stdout is not None
        lines.append(process.stdout.readline())
    for process in started:
        process.terminate()
        finish(process)

    assert all("listening on" in line for line in lines)
    assert lines[0] != lines[1]


def test_two_servers_on_one_database(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-405: what one creates the other finds."""
    first, second = serve("--no-auth").url, serve("--no-auth").url
    session = httpx2.post(f"{first}/api/session", json={}).json()["data"]

    assert httpx2.get(f"{second}/api/session/{session['id']}").json()["data"] == session
